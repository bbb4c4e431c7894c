//! A transport with something beside it that reads the server's counters.

use crate::base::units::Nanos;
use crate::wire::counters::Meter;
use crate::wire::transport::{Outbound, SelfReport, Transport, Wake};

/// The two together. Requests go through the transport and nothing else does.
pub struct Metered {
    transport: Box<dyn Transport>,
    meter: Box<dyn Meter>,
}

impl Metered {
    /// Puts them together.
    pub fn new(transport: Box<dyn Transport>, meter: Box<dyn Meter>) -> Self {
        Self { transport, meter }
    }
}

impl Transport for Metered {
    fn now(&self) -> Nanos {
        self.transport.now()
    }

    fn prepare(&mut self, in_flight: usize) {
        self.transport.prepare(in_flight);
    }

    fn renew(&mut self, idle: usize, by: Nanos) {
        self.transport.renew(idle, by);
    }

    fn submit(&mut self, request: Outbound) {
        self.transport.submit(request);
    }

    fn wait(&mut self, until: Option<Nanos>) -> Wake {
        self.transport.wait(until)
    }

    fn abandon(&mut self) {
        self.transport.abandon();
    }

    fn report(&mut self) -> SelfReport {
        self.transport.report()
    }

    fn meter(&mut self) -> Option<&mut dyn Meter> {
        Some(self.meter.as_mut())
    }
}
