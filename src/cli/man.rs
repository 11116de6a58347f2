//! `pinbad man` and `pinbad completions`: the files that packages install beside the program.

use std::io;
use std::path::Path;

use clap::{Command, CommandFactory as _};
use clap_complete::Shell;
use clap_mangen::Man;

use super::args::Args;
use super::{Failure, print};

/// Prints the man page, or writes the pages of all commands into a folder.
///
/// # Errors
/// When they cannot be written.
pub fn man(dir: Option<&Path>) -> Result<(), Failure> {
    if let Some(dir) = dir {
        let mut command = Args::command().disable_help_subcommand(true);
        // Gives subcommands the names of their pages.
        command.build();
        return write_pages(&command, dir).map_err(|error| {
            Failure::failed(format!("cannot write to {}: {error}", dir.display()))
        });
    }
    let mut page = Vec::new();
    Man::new(Args::command()).render(&mut page).map_err(Failure::failed)?;
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

/// Writes the pages of a command and of those below it. The footer of each names the program.
fn write_pages(command: &Command, dir: &Path) -> io::Result<()> {
    for below in command.get_subcommands() {
        write_pages(below, dir)?;
    }
    let page = Man::new(command.clone()).source(concat!("pinbad ", env!("CARGO_PKG_VERSION")));
    page.generate_to(dir).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_footers_of_all_commands_name_the_program_and_its_version() {
        let dir = tempfile::tempdir().unwrap();
        man(Some(dir.path())).unwrap();
        for name in ["pinbad.1", "pinbad-check.1", "pinbad-alert-ls.1"] {
            let page = std::fs::read_to_string(dir.path().join(name)).unwrap();
            let footer = format!("\"pinbad {}\"", env!("CARGO_PKG_VERSION"));
            let head = page.lines().find(|line| line.starts_with(".TH ")).unwrap();
            assert!(head.contains(&footer), "{name}: {head}");
            assert_eq!(page.contains("\\-\\-version"), name == "pinbad.1", "{name}: {page}");
        }
    }
}
