//! The registry of connections, so that one can be ended from another.
//!
//! Each has a number known to clients, and a `Wish` that says whether its query, or the whole
//! connection, should end. An entry lasts as long as its session; there are up to
//! `mysql.connections_max`.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

use super::errors::error;
use crate::access::Identity;
use crate::sql::SqlError;

/// Requests by others to end a connection or its query.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Wish {
    /// How many times its query was to end.
    pub(super) queries_ended: u64,
    /// Whether the connection should end.
    pub(super) end: bool,
}

/// The owner of a connection, by proven identity and not by the name given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Owner {
    /// A user.
    User(Arc<str>),
    /// A client from this address that gave no proof.
    Anonymous(IpAddr),
}

impl Owner {
    /// The owner for an identity that was admitted from `peer`.
    pub(super) fn of(identity: &Identity, peer: IpAddr) -> Self {
        match &identity.name {
            Some(name) => Self::User(Arc::clone(name)),
            None => Self::Anonymous(peer),
        }
    }
}

#[derive(Debug)]
struct Entry {
    /// `None` before login.
    owner: Option<Owner>,
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

/// A connection's entry in the registry; removed on drop.
#[derive(Debug)]
pub(super) struct Registered {
    pub(super) id: u32,
    all: Arc<Connections>,
    /// Tells of wishes.
    pub(super) wish: watch::Receiver<Wish>,
}

/// The target of a KILL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Victim {
    /// The running statement, if any.
    Query,
    /// The connection.
    Connection,
}

impl Connections {
    /// Registers a new connection.
    pub(super) fn enter(self: &Arc<Self>) -> Registered {
        let mut table = self.0.lock();
        // Numbers wrap after four billion connections; one in use is not given again.
        loop {
            table.last = table.last.wrapping_add(1).max(1);
            if !table.entries.contains_key(&table.last) {
                break;
            }
        }
        let id = table.last;
        let (sender, wish) = watch::channel(Wish::default());
        table.entries.insert(id, Entry { owner: None, wish: sender });
        Registered { id, all: Arc::clone(self), wish }
    }

    /// The number of connections.
    pub(super) fn len(&self) -> usize {
        self.0.lock().entries.len()
    }

    /// Ends the statement or the whole of connection `id` on behalf of `owner`; only an
    /// administrator may end connections of others, or of nobody.
    pub(super) fn kill(
        &self,
        id: u64,
        victim: Victim,
        owner: &Owner,
        admin: bool,
    ) -> Result<(), SqlError> {
        let table = self.0.lock();
        let entry = u32::try_from(id).ok().and_then(|id| table.entries.get(&id));
        let unknown = || error(1094, "HY000", format!("Unknown thread id: {id}"));
        let entry = entry.ok_or_else(unknown)?;
        if !admin && entry.owner.as_ref() != Some(owner) {
            let message = format!("You are not owner of thread {id}");
            return Err(error(1095, "HY000", message));
        }
        entry.wish.send_modify(|wish| match victim {
            Victim::Query => wish.queries_ended += 1,
            Victim::Connection => wish.end = true,
        });
        Ok(())
    }
}

impl Registered {
    /// Sets the owner of the connection.
    pub(super) fn set_owner(&self, owner: Owner) {
        if let Some(entry) = self.all.0.lock().entries.get_mut(&self.id) {
            entry.owner = Some(owner);
        }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.all.0.lock().entries.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Role;

    #[test]
    fn a_connection_is_whose_proof_came_with_it() {
        let (here, there) = ([127, 0, 0, 1].into(), [192, 0, 2, 7].into());
        let user = |name: &str| Identity { name: Some(name.into()), role: Role::Read };
        let nobody = Identity::anonymous(Role::Read);
        let kim = Owner::of(&user("kim"), here);
        let stranger = Owner::of(&nobody, there);
        let all = Arc::new(Connections::default());
        let victims = [
            Some(kim.clone()),
            Some(Owner::of(&user("lee"), here)),
            Some(Owner::of(&nobody, here)),
            Some(stranger.clone()),
            None,
        ];
        for (who, admin, may) in [
            (&kim, false, [true, false, false, false, false]),
            (&stranger, false, [false, false, false, true, false]),
            (&stranger, true, [true; 5]),
        ] {
            for (owner, may) in victims.iter().zip(may) {
                let place = all.enter();
                if let Some(owner) = owner {
                    place.set_owner(owner.clone());
                }
                for victim in [Victim::Query, Victim::Connection] {
                    let killed = all.kill(place.id.into(), victim, who, admin);
                    let wanted = (!may).then_some(1095);
                    let code = killed.err().map(|error| error.code);
                    assert_eq!(code, wanted, "{who:?} {owner:?}");
                }
                assert_eq!(place.wish.borrow().end, may);
            }
        }
        let killed = all.kill(1, Victim::Query, &kim, true);
        assert_eq!(killed.unwrap_err().code, 1094);
    }
}
