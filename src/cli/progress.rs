//! How far a session is and how long it will take, from the plan and what has ended.
//!
//! A phase with absolute due instants lasts as long as its schedule. A closed loop lasts as long as its tokens take, one
//! after the other in each of its slots; what a token takes is learned from the closed loops before it, and from
//! the cell's own pace once its requests end. A session's further runs take as long as this one.

use crate::base::units::Nanos;
use crate::plan::request::{PlannedCell, PlannedRequest};
use crate::spec::workload::Load;

/// One cell, or phase of it.
struct Part {
    name: String,
    /// Its measured requests.
    requests: u64,
    /// Those before them.
    warmup: u64,
    /// Closed loop: requests in flight.
    slots: u64,
    /// Open loop: how long its schedule is.
    schedule: Option<Nanos>,
    /// Closed loop: output tokens of one slot.
    tokens: f64,
    /// Seconds of silence that are part of it.
    pauses: f64,
    ended: u64,
    started: Option<Nanos>,
    done: Option<Nanos>,
}

/// A run of a session.
pub(crate) struct Progress {
    parts: Vec<Part>,
    planned: u64,
    ended: u64,
    /// Runs of the session after this one.
    runs_left: u32,
}

impl Progress {
    /// Nothing has ended yet.
    pub(crate) fn new(cells: &[&PlannedCell], runs_left: u32) -> Self {
        let parts: Vec<Part> = cells.iter().map(|cell| Part::of(cell)).collect();
        let planned = cells.iter().map(|cell| to_u64(cell.requests.len())).sum();
        Self { parts, planned, ended: 0, runs_left }
    }

    /// Measured requests of this run, and how many have ended.
    pub(crate) const fn requests(&self) -> (u64, u64) {
        (self.ended, self.planned)
    }

    /// A phase begins, at this time of the run.
    pub(crate) fn started(&mut self, cell: &str, at: Nanos) {
        self.change(cell, |part| part.started = Some(at));
    }

    /// A measured request has ended, at this time of the run.
    pub(crate) fn request_ended(&mut self, cell: &str, at: Nanos) {
        self.ended = self.ended.saturating_add(1);
        self.change(cell, |part| {
            part.ended += 1;
            if part.ended >= part.requests {
                part.done.get_or_insert(at);
            }
        });
    }

    /// The cell is over.
    pub(crate) fn cell_ended(&mut self, cell: &str, at: Nanos) {
        self.change(cell, |part| {
            part.done.get_or_insert(at);
        });
    }

    /// The time that is left at this time of the run, further runs of the session included; none while nothing tells.
    pub(crate) fn left(&self, at: Nanos) -> Option<Nanos> {
        let per_token = self.per_token(at);
        let parts = self.parts.iter().map(|part| part.left(at, per_token));
        let here = parts.sum::<Option<f64>>()?;
        let whole = here + at.as_secs();
        Some(Nanos::from_ms(1_000.0 * (here + whole * f64::from(self.runs_left))))
    }

    /// Seconds a token took in the closed loops so far.
    fn per_token(&self, at: Nanos) -> Option<f64> {
        let closed = self.parts.iter().filter(|part| part.schedule.is_none() && part.pauses <= 0.0 && part.ended > 0);
        let (seconds, tokens) = closed.fold((0.0, 0.0), |(seconds, tokens), part| {
            let spent = part.done.unwrap_or(at).since(part.started.unwrap_or(at));
            (seconds + spent.as_secs(), tokens + part.tokens * part.share())
        });
        (tokens > 0.0).then(|| seconds / tokens)
    }

    fn change(&mut self, cell: &str, change: impl FnOnce(&mut Part)) {
        if let Some(part) = self.parts.iter_mut().find(|part| part.name == cell) {
            change(part);
        }
    }
}

impl Part {
    fn of(cell: &PlannedCell) -> Self {
        let all = || cell.warmup.iter().chain(&cell.requests);
        let (slots, pause) = match cell.load {
            Load::Closed { concurrency } => (Some(concurrency), Nanos::ZERO),
            Load::Idle { pause } => (Some(1), pause),
            Load::Poisson { .. }
            | Load::Constant { .. }
            | Load::Gamma { .. }
            | Load::Ramp { .. }
            | Load::Bursts { .. }
            | Load::OnOff { .. }
            | Load::Trace => (None, Nanos::ZERO),
        };
        let pauses = pause.as_secs() * ratio(to_u64(cell.requests.len()), 1);
        let tokens = all().map(|request: &PlannedRequest| f64::from(request.output_tokens)).sum::<f64>();
        let last_due = || all().filter_map(|request| request.due).max().unwrap_or(Nanos::ZERO);
        Self {
            name: cell.name.clone(),
            requests: to_u64(cell.requests.len()),
            warmup: to_u64(cell.warmup.len()),
            slots: slots.map_or(0, u64::from),
            schedule: slots.is_none().then(last_due),
            tokens: tokens / f64::from(slots.unwrap_or(1).max(1)),
            pauses,
            ended: 0,
            started: None,
            done: None,
        }
    }

    /// The share of its work that is done. Once a measured request has ended, so has the warm-up; a closed loop has done
    /// half of what is in flight.
    fn share(&self) -> f64 {
        if self.done.is_some() {
            return 1.0;
        }
        let in_flight = self.slots.saturating_sub(1).min(self.requests.saturating_sub(self.ended));
        let ended = self.warmup.saturating_add(self.ended);
        let halves = ended.saturating_mul(2).saturating_add(in_flight);
        ratio(halves, self.warmup.saturating_add(self.requests).saturating_mul(2))
    }

    /// Seconds left; none while nothing tells.
    fn left(&self, at: Nanos, per_token: Option<f64>) -> Option<f64> {
        if self.done.is_some() || self.requests == 0 {
            return Some(0.0);
        }
        let spent = self.started.map_or(0.0, |started| at.since(started).as_secs());
        match self.schedule {
            Some(schedule) => Some((schedule.as_secs() - spent).max(0.0)),
            None if self.ended > 0 => Some(spent * (1.0 / self.share() - 1.0)),
            None => Some((self.tokens * per_token? + self.pauses - spent).max(0.0)),
        }
    }
}

fn to_u64(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

#[expect(clippy::cast_precision_loss, reason = "a plan has far fewer than 2^53 requests")]
fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

/// A time for people who wait: `45 s`, `12 min`, `3 h 05 min`.
pub(crate) fn words(time: Nanos) -> String {
    let seconds = time.0.div_ceil(1_000_000_000);
    match (seconds.div_euclid(3_600), seconds.div_ceil(60)) {
        (0, _) if seconds < 90 => format!("{seconds} s"),
        (_, minutes) if minutes < 90 => format!("{minutes} min"),
        (_, minutes) => format!("{} h {:02} min", minutes.div_euclid(60), minutes.rem_euclid(60)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan;
    use crate::spec;

    /// Two closed loops and an open one; 100 output tokens a request.
    fn progress(runs_left: u32) -> Progress {
        let text = "servegate: 1\nkind: workload\nname: w\ncells:\n  - &c {name: c1, concurrency: 1, requests: 10, warmup: 0, prompt_tokens: 9, output_tokens: 100}\n";
        let cell = |name: &str, load: &str| {
            format!("  - {{name: {name}, {load}, requests: 100, warmup: 0, prompt_tokens: 9, output_tokens: 100}}\n")
        };
        let text =
            text.replace("&c ", "") + &cell("c2", "concurrency: 2") + &cell("r10", "rate: 10/s, arrivals: constant");
        let plan = plan::build(&spec::read_workload("w.yaml", &text).unwrap().value);
        Progress::new(&plan.cells.iter().collect::<Vec<_>>(), runs_left)
    }

    fn s(seconds: u64) -> Nanos {
        Nanos::from_secs(seconds)
    }

    fn left(progress: &Progress, at: u64) -> Option<f64> {
        progress.left(s(at)).map(|left| left.as_secs().round())
    }

    #[test]
    fn the_time_left_comes_from_the_schedule_and_from_the_pace_of_tokens() {
        let mut it = progress(0);
        it.started("c1", s(0));
        assert_eq!(left(&it, 1), None, "no request has ended: nothing is known");
        for at in 1..=5 {
            it.request_ended("c1", s(2 * at));
        }
        // 2 s a request: 5 left here, 100 in two slots next, and 10 s of schedule.
        assert_eq!(left(&it, 10), Some(120.0));
        (6..=10).for_each(|at| it.request_ended("c1", s(2 * at)));
        it.cell_ended("c1", s(20));
        it.started("r10", s(20));
        assert_eq!(left(&it, 24), Some(106.0), "4 s of the schedule are over");
        it.cell_ended("r10", s(31));
        it.started("c2", s(31));
        (0..50).for_each(|_| it.request_ended("c2", s(71)));
        assert_eq!(left(&it, 71), Some(39.0), "its own pace: 50 and half of the next took 40 s");
        assert_eq!(it.requests(), (60, 210));
        it.cell_ended("c2", s(100));
        assert_eq!(left(&it, 100), Some(0.0));
    }

    #[test]
    fn the_first_end_of_a_full_cell_tells_the_pace_of_all_that_is_in_flight() {
        let text = "servegate: 1\nkind: workload\nname: w\ncells:\n  - {name: c160, concurrency: 160, requests: 800, warmup: 320, prompt_tokens: 9, output_tokens: 100}\n";
        let plan = plan::build(&spec::read_workload("w.yaml", text).unwrap().value);
        let mut it = Progress::new(&plan.cells.iter().collect::<Vec<_>>(), 0);
        it.started("c160", s(0));
        // 10 s a request: the warm-up takes 20 s, everything 70 s.
        it.request_ended("c160", s(21));
        let found = left(&it, 21).unwrap();
        assert!((35.0..70.0).contains(&found), "{found}");
    }

    #[test]
    fn further_runs_take_as_long_as_this_one() {
        let mut it = progress(2);
        it.started("c1", s(0));
        (1..=10).for_each(|at| it.request_ended("c1", s(at)));
        assert_eq!(left(&it, 10), Some(60.0 + 2.0 * 70.0));
    }

    #[test]
    fn times_are_rounded_up_to_what_a_person_waits_for() {
        for (seconds, shown) in [
            (0, "0 s"),
            (45, "45 s"),
            (89, "89 s"),
            (90, "2 min"),
            (601, "11 min"),
            (5_400, "1 h 30 min"),
            (11_101, "3 h 06 min"),
        ] {
            assert_eq!(words(s(seconds)), shown);
        }
        assert_eq!(words(Nanos(1)), "1 s");
    }
}
