//! What the load generator tells while it works.

use crate::artifact::run::CellEvidence;
use crate::base::units::Nanos;

/// A step of a pass, for whoever watches it.
#[derive(Debug)]
pub enum Event<'a> {
    /// A cell, or a phase of it, begins.
    CellStarted {
        /// Its name.
        cell: &'a str,
        /// Measured requests planned.
        planned: u32,
    },
    /// A measured request has ended.
    Progress {
        /// Its cell.
        cell: &'a str,
        /// Measured requests that have ended.
        ended: u32,
        /// Measured requests planned.
        planned: u32,
        /// Of the ended, those that the transport saw fail (no whole answer, or a status other than
        /// 2xx). The outcome of a record is decided later, when the answer is decoded.
        failed: u32,
    },
    /// The server's counters could not be read in a cell: what it counted stays unknown.
    CountersUnread {
        /// The cell.
        cell: &'a str,
        /// Why, one line.
        cause: &'a str,
    },
    /// A cell, or a phase of it, is over. Phases are over when their cell is: requests may end under a later phase.
    CellEnded {
        /// What it tells about its validity.
        evidence: &'a CellEvidence,
        /// How long the load generator stood waiting for records to be decoded and written. Requests of
        /// a closed loop may have been sent late by as much; their records show it.
        blocked: Nanos,
    },
}
