//! Locks whose waits are events: each is taken through its instrument.

use parking_lot::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::registry::Instrument;

impl Instrument {
    /// Locks a mutex; the time to acquire it is the wait.
    pub(crate) fn lock<'a, T>(&'static self, mutex: &'a Mutex<T>) -> MutexGuard<'a, T> {
        let _waiting = self.begin();
        mutex.lock()
    }

    /// Takes a lock for reading; the time to acquire it is the wait.
    pub(crate) fn read<'a, T>(&'static self, lock: &'a RwLock<T>) -> RwLockReadGuard<'a, T> {
        let _waiting = self.begin();
        lock.read()
    }

    /// Takes a lock for writing; the time to acquire it is the wait.
    pub(crate) fn write<'a, T>(&'static self, lock: &'a RwLock<T>) -> RwLockWriteGuard<'a, T> {
        let _waiting = self.begin();
        lock.write()
    }
}
