//! Heartbeats, from a thread of their own: busy devices and actors must not make a worker look dead.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use shoal_wire::control::FromWorker;

use super::links::Links;
use crate::coordinator::HEARTBEAT_MS;
use crate::device::Devices;

/// Beats until dropped.
#[derive(Debug)]
pub(super) struct Heart(Arc<AtomicBool>);

impl Heart {
    /// Starts the thread. While there is no link to the coordinator, beats are lost.
    pub(super) fn start(links: Links, devices: Devices) -> io::Result<Self> {
        let stopped = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&stopped);
        thread::Builder::new().name("heartbeat".to_owned()).spawn(move || {
            let mut number = 0;
            while !stop.load(Ordering::Acquire) {
                if links.me().is_some() {
                    number += 1;
                    links.tell(FromWorker::Heartbeat { number, used_bytes: devices.used_bytes() });
                }
                thread::sleep(Duration::from_millis(HEARTBEAT_MS));
            }
        })?;
        Ok(Self(stopped))
    }
}

impl Drop for Heart {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}
