//! A JSON file small enough to be rewritten with every change: `reports.json`, `annotations.json`.
//!
//! It is replaced as a whole (written, synced, renamed, folder synced), so that it is always either
//! the old or the new version, and readable by its owner only (`files.rs`). An unreadable file is
//! set aside and logged; if it cannot be set aside either, it is never overwritten.

use std::fs::File;
use std::io::{self, BufWriter, Read as _, Write as _};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;
use tracing::error;

use super::files;
use super::folder::{KeptFolder, Setting, StateError};
use crate::instruments::MeasuredWrite;

/// The format version of the files; a daemon reads this one and the older ones that it names (none
/// yet).
pub(crate) const VERSION: u64 = 1;

/// Longest file that is read or written, in bytes: a thousand reports of the largest form take far
/// less, and the maximum of annotations no more.
pub(super) const BYTES_MAX: u64 = 256 << 20;

/// One such file.
#[derive(Debug)]
pub(crate) struct Document {
    folder: KeptFolder,
    path: PathBuf,
    /// The existing file could be neither read nor set aside, so it must not be overwritten.
    in_the_way: bool,
}

impl Document {
    /// Opens the file in a folder, which contains a list of this name; returns no content if it
    /// does not exist. A corrupt file is set aside and logged; `what` describes its content in the
    /// log. `unix_secs` is the wall clock's time.
    ///
    /// # Errors
    /// Fails if it exists but cannot be opened or read.
    pub(crate) fn open<T: DeserializeOwned>(
        folder: &KeptFolder,
        list: &'static str,
        what: &'static str,
        unix_secs: u32,
    ) -> Result<(Self, Option<T>), StateError> {
        let path = folder.dir.join(format!("{list}.json"));
        let read = read(folder.setting, &path, list)?;
        let mut document = Self { folder: folder.clone(), path, in_the_way: false };
        let read = read.unwrap_or_else(|reason| {
            document.set_aside(&reason, what, unix_secs);
            None
        });
        Ok((document, read))
    }

    fn set_aside(&mut self, reason: &str, what: &str, unix_secs: u32) {
        let file = self.path.display();
        match files::set_aside(&self.path, "corrupt", unix_secs) {
            Ok(aside) => error!(
                %file, reason, set_aside = %aside.display(),
                "Could not read {what}; set the file aside and continued without them."
            ),
            Err(error) => {
                error!(
                    %file, reason, %error,
                    "Could neither read {what} nor set the file aside; continued without them, and changes will be refused."
                );
                self.in_the_way = true;
            }
        }
    }

    /// Replaces the content.
    ///
    /// # Errors
    /// Fails if it cannot be written; then nothing has changed.
    pub(crate) fn write(&self, contents: &impl Serialize) -> Result<(), StateError> {
        let write = |file: &mut MeasuredWrite<File>| {
            let mut out = BufWriter::new(file);
            serde_json::to_writer_pretty(&mut out, contents)?;
            out.write_all(b"\n")?;
            out.flush()?;
            match out.get_ref().to.metadata()?.len() > BYTES_MAX {
                true => Err(io::Error::other(format!("it would be longer than {BYTES_MAX} bytes"))),
                false => Ok(()),
            }
        };
        let written = match self.in_the_way {
            true => Err(io::Error::other(
                "a corrupt file of that name could not be set aside when the daemon started; move it away and restart",
            )),
            false if !self.folder.is_made() => Err(io::Error::other(
                "the folder could not be made yet; that is tried every 5 seconds",
            )),
            false => files::replace(&self.path, write),
        };
        written.map_err(self.folder.setting.failed("write", &self.path))
    }
}

/// The content of a file, or why it is corrupt; `None` if it does not exist.
pub(super) fn read<T: DeserializeOwned>(
    setting: Setting,
    path: &Path,
    list: &str,
) -> Result<Result<Option<T>, String>, StateError> {
    let opened = match files::open(path).map_err(setting.failed("read", path))? {
        files::Opened::Nothing => return Ok(Ok(None)),
        files::Opened::File(opened) => opened,
        files::Opened::Other(reason) => return Ok(Err(reason)),
    };
    let mut text = Vec::new();
    opened.take(BYTES_MAX + 1).read_to_end(&mut text).map_err(setting.failed("read", path))?;
    Ok(parse(&text, list).map(Some))
}

fn parse<T: DeserializeOwned>(text: &[u8], list: &str) -> Result<T, String> {
    if text.len() as u64 > BYTES_MAX {
        return Err(format!("it is longer than {BYTES_MAX} bytes"));
    }
    let file: Json =
        serde_json::from_slice(text).map_err(|error| format!("it is not JSON: {error}"))?;
    match file.get("version").and_then(Json::as_u64) {
        Some(VERSION) => {}
        Some(version) => {
            return Err(format!("it has version {version}, and this daemon reads {VERSION}"));
        }
        None => return Err("it has no version".to_owned()),
    }
    serde_json::from_value(file).map_err(|error| format!("it has no list of {list}: {error}"))
}
