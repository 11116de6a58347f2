//! `pinbad man` and `pinbad completions`: the files that packages install beside the program.

use std::path::Path;

use clap::{Command, CommandFactory as _};
use clap_complete::Shell;

use super::args::Args;
use super::{Failure, print};

/// Prints the man page, or writes the pages of all commands into a folder.
///
/// # Errors
/// When they cannot be written.
pub fn man(dir: Option<&Path>) -> Result<(), Failure> {
    if let Some(dir) = dir {
        return clap_mangen::generate_to(versioned(Args::command()), dir).map_err(|error| {
            Failure::failed(format!("cannot write to {}: {error}", dir.display()))
        });
    }
    let mut page = Vec::new();
    let rendered = clap_mangen::Man::new(Args::command()).render(&mut page);
    rendered.map_err(Failure::failed)?;
    print(String::from_utf8_lossy(&page).trim_end())
}

/// Prints the completions of a shell.
///
/// # Errors
/// When they cannot be written.
pub fn completions(shell: Shell) -> Result<(), Failure> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "pinbad", &mut text);
    print(String::from_utf8_lossy(&text).trim_end())
}

/// Gives all commands below this one the version, for their footers, and no flag that shows it.
fn versioned(command: Command) -> Command {
    command.mut_subcommands(|it| {
        versioned(it.version(env!("CARGO_PKG_VERSION")).disable_version_flag(true))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_all_commands_name_the_version() {
        let dir = tempfile::tempdir().unwrap();
        man(Some(dir.path())).unwrap();
        for name in ["pinbad.1", "pinbad-check.1", "pinbad-alert-ls.1"] {
            let page = std::fs::read_to_string(dir.path().join(name)).unwrap();
            assert!(page.contains(env!("CARGO_PKG_VERSION")), "{name}: {page}");
            assert_eq!(page.contains("\\-\\-version"), name == "pinbad.1", "{name}: {page}");
        }
    }
}
