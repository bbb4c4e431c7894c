//! The candidate's session of one suite: its runs, and controls of the baseline image in between.

use std::path::PathBuf;

use crate::base::names::Side;
use crate::cli::deployment::Deployment;
use crate::cli::error::CliError;
use crate::cli::gathered::Gathered;
use crate::cli::resume::Resumed;
use crate::cli::session::{Measured, Session, interleave};
use crate::cli::signals::Interrupt;
use crate::cli::suite::Suite;
use crate::cli::terminal::Terminal;
use crate::store::bundle::Part;

/// What to measure.
pub(crate) struct CandidateSession<'a> {
    /// Name of the session.
    pub(crate) name: &'a str,
    /// Release under judgement.
    pub(crate) release: &'a str,
    /// Runs of the candidate.
    pub(crate) runs: u32,
    /// Runs of the baseline image.
    pub(crate) controls: u32,
    /// Folder that gets one folder per run.
    pub(crate) out: PathBuf,
    /// Whether to keep what the answers say.
    pub(crate) keep_text: bool,
    /// Whether whole runs of the session that are there already stay, and only the others are measured.
    pub(crate) resume: bool,
}

/// What is measured, and who watches.
pub(crate) struct Stage<'a> {
    /// The deployment.
    pub(crate) deployment: &'a mut dyn Deployment,
    /// The user's wish to stop.
    pub(crate) interrupt: &'a Interrupt,
    /// The terminal.
    pub(crate) terminal: &'a mut Terminal,
}

impl CandidateSession<'_> {
    /// Measures and adds the runs to the evidence. What kept it from being complete is returned beside.
    pub(crate) fn measure(
        &self,
        suite: &Suite,
        gathered: &mut Gathered,
        stage: &mut Stage<'_>,
    ) -> Result<Option<CliError>, CliError> {
        let baseline = gathered.reference.as_ref().map_or_else(String::new, |reference| reference.release.clone());
        let controls = if stage.deployment.can_restart() { self.controls } else { 0 };
        if self.controls > controls {
            stage.terminal.say(
                "note: the target has no `restart` command: no control of the baseline can be measured, and all \
                 passes count as one session with an unknown session effect",
            );
        }
        let release = |side| if side == Side::Candidate { self.release } else { &baseline }.to_owned();
        let runs: Vec<_> = interleave(self.runs, controls).into_iter().map(|side| (side, release(side))).collect();
        let kept = if self.resume && self.out.is_dir() {
            let resumed = Resumed::find(&self.out, Some(self.name))?;
            resumed.check(&suite.plan, &runs)?;
            resumed.enter(stage.terminal)?
        } else {
            Vec::new()
        };
        let session =
            Session { plan: &suite.plan, name: self.name, runs, out: &self.out, keep_text: self.keep_text, kept };
        carry_out(&session, gathered, stage)
    }
}

/// Measures a session of candidate runs and controls and adds them to the evidence. What kept it from being complete
/// is returned beside.
pub(crate) fn carry_out(
    session: &Session<'_>,
    gathered: &mut Gathered,
    stage: &mut Stage<'_>,
) -> Result<Option<CliError>, CliError> {
    let Measured { runs, trouble } = session.measure(stage.deployment, stage.interrupt, stage.terminal);
    for stored in &runs {
        let part = if stored.manifest.side == Side::Control { Part::Control } else { Part::Candidate };
        gathered.read(part, std::slice::from_ref(&stored.path))?;
    }
    Ok(trouble)
}
