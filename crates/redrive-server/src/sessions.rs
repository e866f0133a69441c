//! Sessions of browsers.
//!
//! A cookie holds a random number and not the token: whoever copies a cookie has access until the session ends, and
//! learns no secret. Sessions are in memory, so a restart ends them.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use jiff::{SignedDuration, Timestamp};
use redrive_engine::{NoRandomness, random_u64};
use sha2::{Digest, Sha256};

use crate::access::Token;

/// People sign in about once a day.
pub(crate) const SESSION_LIFETIME: SignedDuration = SignedDuration::from_hours(12);

/// Bounds memory: another session ends the one that would end first.
const MAX_SESSIONS: usize = 10_000;

/// By the digest of the id, so that the time of a search reveals nothing about ids.
#[derive(Default)]
pub(crate) struct Sessions(Mutex<HashMap<[u8; 32], Session>>);

struct Session {
    token: Token,
    ends_at: Timestamp,
}

impl Sessions {
    /// Starts a session for the holder of a token and returns the id.
    pub(crate) fn start(&self, token: &Token, now: Timestamp) -> Result<String, NoRandomness> {
        let id = random_text()?;
        let ends_at = now.saturating_add(SESSION_LIFETIME).unwrap_or(now);
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|_, session| session.ends_at > now);
        if sessions.len() >= MAX_SESSIONS {
            let first = sessions.iter().min_by_key(|(_, session)| session.ends_at);
            if let Some(key) = first.map(|(key, _)| *key) {
                sessions.remove(&key);
            }
        }
        sessions.insert(key(&id), Session { token: token.clone(), ends_at });
        Ok(id)
    }

    /// The token that started a session.
    pub(crate) fn token(&self, id: &str, now: Timestamp) -> Option<Token> {
        let sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let session = sessions.get(&key(id)).filter(|session| session.ends_at > now)?;
        Some(session.token.clone())
    }

    pub(crate) fn end(&self, id: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&key(id));
    }
}

fn key(id: &str) -> [u8; 32] {
    Sha256::digest(id).into()
}

/// 256 random bits as hexadecimal digits, for a session or a token.
pub fn random_text() -> Result<String, NoRandomness> {
    (0..4).map(|_| random_u64().map(|word| format!("{word:016x}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_ends_after_its_lifetime_or_when_its_owner_signs_out() {
        let (sessions, start) = (Sessions::default(), Timestamp::UNIX_EPOCH);
        let token = Token::new("the token of Ann").unwrap();
        let id = sessions.start(&token, start).unwrap();
        let found = |at| sessions.token(&id, at);
        assert_eq!(id.len(), 64);
        assert_eq!(found(start), Some(token.clone()));
        let end = start + SESSION_LIFETIME;
        assert_eq!(found(end - SignedDuration::from_secs(1)), Some(token));
        assert_eq!(found(end), None);
        sessions.end(&id);
        assert_eq!(found(start), None);
        assert_eq!(sessions.token("other", start), None);
    }
}
