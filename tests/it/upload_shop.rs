//! A folder with files, a configuration of an upload, a store, and the server that receives.

use std::{
    io::{BufRead, BufReader, Read},
    process::{Child, ChildStderr, Command, Stdio},
};

use serde_json::Value;

use crate::{
    databases::one_of_each,
    folder::{Ended, Folder},
    shop::Shop,
    upload_server::{Received, Reply, Server},
};

/// Short waits, so that a test is through soon.
pub(crate) const SOON: &str = "backoff-base = \"10ms\"\nbackoff-cap = \"50ms\"\nlease = \"1s\"\n";

/// One of them.
pub(crate) struct UploadShop {
    pub(crate) shop: Shop,
    pub(crate) server: Server,
}

impl UploadShop {
    /// One on each kind of store.
    pub(crate) fn both<S>(config: &str, script: S) -> [Self; 2]
    where
        S: Fn(&Received) -> Reply + Send + Sync + Clone + 'static,
    {
        let [sqlite, postgres] = [Folder::new(), Folder::new()];
        let [_, url] = one_of_each(&sqlite);
        let open = |folder, store: &str| Self::open(folder, store, config, script.clone());
        [open(sqlite, "sqlite:store.db"), open(postgres, &url)]
    }

    /// One on SQLite, for what no store has a part in.
    pub(crate) fn on_sqlite(
        config: &str,
        script: impl Fn(&Received) -> Reply + Send + Sync + 'static,
    ) -> Self {
        Self::open(Folder::new(), "sqlite:store.db", config, script)
    }

    fn open(
        folder: Folder,
        store: &str,
        config: &str,
        script: impl Fn(&Received) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let server = Server::new(script);
        let url = server.url();
        let config = format!("[[upload]]\nname = \"tiles\"\nurl = \"{url}\"\n{config}");
        Self { shop: Shop::selling(folder, store, &config, ""), server }
    }

    /// Adds a file to the group `g` under its name.
    #[track_caller]
    pub(crate) fn add(&self, name: &str, content: impl AsRef<[u8]>) {
        self.shop.folder.write(name, content);
        self.shop.run(&["uploads", "add", "--upload", "tiles", "--group", "g", name]).ok();
    }

    /// Uploads the group `g`. What is said beside the result is left out.
    pub(crate) fn upload(&self) -> Ended {
        self.upload_with(&[])
    }

    pub(crate) fn upload_with(&self, environment: &[(&str, &str)]) -> Ended {
        let arguments = [
            "uploads", "run", "--upload", "tiles", "--group", "g", "--now", "-o", "json", "-q",
            "-q",
        ];
        let mut command = self.shop.command(&arguments);
        command.envs(environment.iter().copied());
        self.shop.folder.ended(command.output().unwrap())
    }

    /// The summary of an upload that ended with a code.
    #[track_caller]
    pub(crate) fn uploaded(&self, code: i32) -> Value {
        let ended = self.upload();
        assert_eq!(ended.code, Some(code), "{ended:#?}");
        serde_json::from_str(&ended.stdout).unwrap()
    }

    /// An item, by its name.
    #[track_caller]
    pub(crate) fn item(&self, name: &str) -> Value {
        let items = self.shop.run(&["uploads", "list", "--group", "g", "-o", "json"]).json();
        let found = items.as_array().unwrap().iter().find(|item| item["name"] == name);
        found.unwrap_or_else(|| panic!("no {name} in {items}")).clone()
    }

    /// Starts an upload that goes on.
    pub(crate) fn start(&self) -> Upload {
        let arguments =
            ["uploads", "run", "--upload", "tiles", "--group", "g", "--now", "-o", "json"];
        let mut command = self.shop.command(&arguments);
        let mut child = command.stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let log = BufReader::new(child.stderr.take().unwrap());
        Upload { child, log }
    }

    #[track_caller]
    pub(crate) fn doctor(&self) {
        let doctor = self.shop.run(&["doctor"]);
        assert_eq!(doctor.code, Some(0), "{doctor:#?}");
    }
}

/// An upload that goes on. It does not outlive its test.
pub(crate) struct Upload {
    child: Child,
    log: BufReader<ChildStderr>,
}

impl Upload {
    /// Reads what it says until a line has these words.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, words: &str) {
        let mut read = String::new();
        loop {
            let mut line = String::new();
            let length = self.log.read_line(&mut line).unwrap();
            assert_ne!(length, 0, "it ended and never said {words:?}:\n{read}");
            if line.contains(words) {
                return;
            }
            read.push_str(&line);
        }
    }

    pub(crate) fn signal(&self, signal: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
    }

    /// Waits for its end: the exit code, the summary if there is one, and the rest of what it says.
    pub(crate) fn end(mut self) -> (Option<i32>, Value, String) {
        let (mut summary, mut rest) = (String::new(), String::new());
        self.log.read_to_string(&mut rest).unwrap();
        self.child.stdout.take().unwrap().read_to_string(&mut summary).unwrap();
        let code = self.child.wait().unwrap().code();
        (code, serde_json::from_str(&summary).unwrap_or_default(), rest)
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        // One that has ended, and was waited for, is not signalled.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}
