//! `pinbad man` and `pinbad completions`: the files that packages install beside the program.

use std::path::Path;

use clap::CommandFactory as _;
use clap_complete::Shell;

use super::args::Args;
use super::{Failure, print};

/// Prints the man page, or writes the pages of all commands into a folder.
///
/// # Errors
/// When they cannot be written.
pub fn man(dir: Option<&Path>) -> Result<(), Failure> {
    if let Some(dir) = dir {
        return clap_mangen::generate_to(Args::command(), dir).map_err(|error| {
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
