//! `redrive token new | list`: tokens of the server.

use clap::{Args, Subcommand};
use redrive::config::{TokenConfig, TokenDigest};
use redrive_server::{Role, Token, random_text};
use serde::Serialize;

use crate::{
    context::Context,
    exit::{CommandError, Exit},
    output::{TableColumn, TableRow},
};

#[derive(Debug, Args)]
#[command(after_help = "\
To revoke a token, write `revoked = true` in its entry, or remove the entry, and restart the server.

Examples:
  redrive token new --name ci --role submitter
  redrive token list")]
pub(crate) struct TokenArgs {
    #[command(subcommand)]
    command: TokenCommand,
}

#[derive(Debug, Subcommand)]
enum TokenCommand {
    /// Make a token, and print it with the lines for the configuration
    #[command(after_help = "\
The token is printed once and stored nowhere; the configuration has its SHA-256. A submitter may submit runs and nothing
else, a viewer may read, an operator may do everything. The journal has the name of the token.

Examples:
  redrive token new --name ci --role submitter
  redrive token new --name ann --role operator -o json")]
    New {
        /// The name, for the journal
        #[arg(long, value_name = "NAME")]
        name: String,

        /// submitter, viewer or operator
        #[arg(long, value_name = "ROLE", value_parser = parse_role)]
        role: Role,
    },
    /// List the tokens of the configuration
    #[command(after_help = "\
Examples:
  redrive token list
  redrive token list -o json")]
    List,
}

fn parse_role(text: &str) -> Result<Role, String> {
    let names = Role::ALL.map(Role::name).join(", ");
    Role::from_name(text).ok_or_else(|| format!("the roles are {names}"))
}

pub(crate) fn run(args: TokenArgs, context: &Context) -> Result<Exit, CommandError> {
    match args.command {
        TokenCommand::New { name, role } => new(&name, role, context)?,
        TokenCommand::List => {
            let server = context.config()?.map(|config| config.server).unwrap_or_default();
            let plain = [(server.operator_token, "operator"), (server.viewer_token, "viewer")];
            let plain = plain.into_iter().filter_map(|(variable, role)| {
                let from = format!("${}", variable?);
                Some(TokenRow { name: role.to_owned(), role, from, revoked: false })
            });
            context.output.list(plain.chain(server.tokens.into_iter().map(TokenRow::from)))?;
        }
    }
    Ok(Exit::Ok)
}

fn new(name: &str, role: Role, context: &Context) -> Result<(), CommandError> {
    if name.is_empty() || name.trim() != name || name.chars().any(char::is_control) {
        return Err(CommandError::usage(format!("--name: {name:?} is not a name")));
    }
    let random = random_text()
        .map_err(|error| CommandError::new(Exit::Error, "cannot make a token").caused_by(error))?;
    let text = format!("redrive_{random}");
    let sha256 = Token::new(&text).map(|token| token.sha256()).unwrap_or_default();
    // JSON strings are TOML strings.
    let quoted = serde_json::to_string(name).unwrap_or_default();
    let lines = format!(
        "[[server.tokens]]\nname = {quoted}\nrole = \"{}\"\nsha256 = \"{sha256}\"",
        role.name()
    );
    if context.output.is_table() {
        return context.output.text(&format!("{text}\n\n{lines}\n"));
    }
    context.output.object(&NewToken { token: text, config: lines })
}

#[derive(Debug, Serialize)]
struct NewToken {
    token: String,
    /// The lines for `redrive.toml`.
    config: String,
}

#[derive(Debug, Serialize)]
struct TokenRow {
    name: String,
    role: &'static str,
    /// The file, or the variable that holds the token or its SHA-256.
    from: String,
    revoked: bool,
}

impl From<TokenConfig> for TokenRow {
    fn from(token: TokenConfig) -> Self {
        let from = match token.digest {
            TokenDigest::Written(_) => "file".to_owned(),
            TokenDigest::Env(variable) => format!("${variable}"),
        };
        Self { name: token.name, role: token.role, from, revoked: token.revoked }
    }
}

impl TableRow for TokenRow {
    const COLUMNS: &'static [TableColumn] = &[
        TableColumn::text("name"),
        TableColumn::text("role"),
        TableColumn::text("from"),
        TableColumn::text("revoked"),
    ];

    fn cells(&self) -> Vec<String> {
        let revoked = if self.revoked { "yes" } else { "" };
        vec![self.name.clone(), self.role.to_owned(), self.from.clone(), revoked.to_owned()]
    }
}
