//! The connections there are, so that one can be ended from another.
//!
//! Each has a number, as clients know it, and a `Fate` that says whether its query, or all of it, shall end. Kept by
//! the session for as long as it lives; as many as `mysql.connections_max`.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

/// What others want of a connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Wish {
    /// How often a query of it was to end.
    pub(super) queries_ended: u64,
    /// It shall end.
    pub(super) end: bool,
}

#[derive(Debug)]
struct Entry {
    user: String,
    wish: watch::Sender<Wish>,
}

#[derive(Debug, Default)]
struct Table {
    entries: HashMap<u32, Entry>,
    last: u32,
}

/// All connections.
#[derive(Debug, Default)]
pub(super) struct Connections(Mutex<Table>);

/// A connection's place among them, until it is dropped.
#[derive(Debug)]
pub(super) struct Registered {
    pub(super) id: u32,
    all: Arc<Connections>,
    wish: watch::Receiver<Wish>,
}

/// What is to be ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Victim {
    /// The statement that runs, if one does.
    Query,
    /// The connection.
    Connection,
}

/// Why nothing was ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NotKilled {
    /// There is no such connection.
    Unknown,
    /// It is somebody else's.
    NotYours,
}

impl Connections {
    /// A place for a new connection.
    pub(super) fn enter(self: &Arc<Self>) -> Registered {
        let mut table = self.0.lock();
        // Numbers come round after four billion connections; one that is still there is not given again.
        loop {
            table.last = table.last.wrapping_add(1).max(1);
            if !table.entries.contains_key(&table.last) {
                break;
            }
        }
        let id = table.last;
        let (sender, wish) = watch::channel(Wish::default());
        table.entries.insert(
            id,
            Entry {
                user: String::new(),
                wish: sender,
            },
        );
        Registered {
            id,
            all: Arc::clone(self),
            wish,
        }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.0.lock().entries.len()
    }

    /// Ends what runs on connection `id`, or the connection; others' only for an administrator.
    pub(super) fn kill(
        &self,
        id: u64,
        victim: Victim,
        user: &str,
        admin: bool,
    ) -> Result<(), NotKilled> {
        let table = self.0.lock();
        let id = u32::try_from(id).map_err(|_| NotKilled::Unknown)?;
        let entry = table.entries.get(&id).ok_or(NotKilled::Unknown)?;
        if !admin && entry.user != user {
            return Err(NotKilled::NotYours);
        }
        entry.wish.send_modify(|wish| match victim {
            Victim::Query => wish.queries_ended += 1,
            Victim::Connection => wish.end = true,
        });
        Ok(())
    }
}

impl Registered {
    /// Says whose connection it is.
    pub(super) fn set_user(&self, user: &str) {
        if let Some(entry) = self.all.0.lock().entries.get_mut(&self.id) {
            user.clone_into(&mut entry.user);
        }
    }

    /// What others want of it, for one who waits.
    pub(super) fn wish(&self) -> watch::Receiver<Wish> {
        self.wish.clone()
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.all.0.lock().entries.remove(&self.id);
    }
}
