//! The records of one run and cell, taken out once and asked many times.

use std::collections::{BTreeMap, BTreeSet};

use crate::artifact::metrics::{Definition, NoValue, Question, Summary, definition};
use crate::artifact::record::Record;
use crate::artifact::run::Run;
use crate::base::names::{Metric, Statistic};
use crate::base::units::Nanos;
use crate::stats::quantile::{quantile, tail05};

/// The records of a cell in the order they were due, and the values that were asked for so far.
pub struct CellData<'r> {
    records: Vec<&'r Record>,
    window: Nanos,
    failed: usize,
    series: BTreeMap<Metric, Result<Vec<f64>, NoValue>>,
    /// Another phase of the same cell in the same run, which the numbers are read against.
    reference: Option<Box<Self>>,
}

impl<'r> CellData<'r> {
    /// The records of `cell`; a cell that the run does not have is empty.
    pub fn of(run: &'r Run, cell: &str) -> Self {
        let mut records: Vec<&Record> = run.records.iter().filter(|record| record.cell == cell).collect();
        records.sort_by_key(|record| (record.due, record.request));
        let window = run.manifest.cells.iter().find(|evidence| evidence.name == cell).map_or(Nanos::ZERO, |evidence| {
            Nanos::from_micros(evidence.window_end_us).since(Nanos::from_micros(evidence.window_start_us))
        });
        let failed = records.iter().filter(|record| !record.is_success()).count();
        Self { records, window, failed, series: BTreeMap::new(), reference: None }
    }

    /// The same, read against another phase of the run.
    #[must_use]
    pub fn against(self, reference: Self) -> Self {
        Self { reference: Some(Box::new(reference)), ..self }
    }

    /// The phase that the numbers are read against.
    pub fn reference(&self) -> Option<&Self> {
        self.reference.as_deref()
    }

    /// The same, to be asked.
    pub fn reference_mut(&mut self) -> Option<&mut Self> {
        self.reference.as_deref_mut()
    }

    /// Only the requests with these numbers. The measured window stays that of the cell: a rate of a part is what the part
    /// contributed to it.
    #[must_use]
    pub fn part(self, numbers: &BTreeSet<u32>) -> Self {
        let records: Vec<&Record> =
            self.records.into_iter().filter(|record| numbers.contains(&record.request)).collect();
        let failed = records.iter().filter(|record| !record.is_success()).count();
        Self { records, failed, series: BTreeMap::new(), ..self }
    }

    /// The answer to one question. Values are computed at the first question about their metric.
    ///
    /// # Errors
    ///
    /// Why there is no number.
    pub fn summary(&mut self, question: &Question<'_>) -> Result<Summary, NoValue> {
        if !question.metric.allows(question.statistic) {
            return Err(NoValue::NoSuchStatistic);
        }
        if self.records.is_empty() {
            return Err(NoValue::NoRequests);
        }
        let (value, n) = match definition(question.metric) {
            Definition::Run(compute) => compute(self, question)?,
            Definition::Request(_) | Definition::Gaps(_) | Definition::Refusals(_) => self.statistic(question)?,
        };
        Ok(Summary { value, n, failed: self.failed, gateable: n >= question.statistic.floor() })
    }

    /// The values of a metric of single requests, in due order: ms, `+inf` for a failed request; requests
    /// whose answer does not define the metric are left out. Empty for every other kind of metric.
    pub fn times(&self, metric: Metric) -> Vec<f64> {
        match definition(metric) {
            Definition::Request(time) => self.request_times(time),
            Definition::Gaps(_) | Definition::Refusals(_) | Definition::Run(_) => Vec::new(),
        }
    }

    /// The same with the turn of each request in its session; none where it has no session.
    pub fn times_by_turn(&self, metric: Metric) -> Vec<(Option<u32>, f64)> {
        let Definition::Request(time) = definition(metric) else { return Vec::new() };
        self.records.iter().filter_map(|record| Some((record.turn, value(record, time)?))).collect()
    }

    /// The records, in the order they were due.
    pub fn records(&self) -> &[&'r Record] {
        &self.records
    }

    /// How many requests failed.
    pub const fn failed(&self) -> usize {
        self.failed
    }

    /// The successes, in the order they were due.
    pub(super) fn successes(&self) -> impl Iterator<Item = &'r Record> {
        self.records.iter().copied().filter(|record| record.is_success())
    }

    /// The length of the measured window, in seconds.
    pub(super) fn window_secs(&self) -> Result<f64, NoValue> {
        if self.window == Nanos::ZERO { Err(NoValue::NoWindow) } else { Ok(self.window.as_secs()) }
    }

    fn statistic(&mut self, question: &Question<'_>) -> Result<(f64, usize), NoValue> {
        if !self.series.contains_key(&question.metric) {
            let values = self.values(question.metric);
            self.series.insert(question.metric, values);
        }
        let values = self.series.get_mut(&question.metric).ok_or(NoValue::NoRequests)?;
        let values = values.as_mut().map_err(|none| *none)?;
        let value = match (question.statistic, question.statistic.level()) {
            (Statistic::Tail05, _) => tail05(values, question.timeout.as_ms()).map(f64::exp),
            (_, Some(level)) => quantile(values, level),
            (_, None) => return Err(NoValue::NoSuchStatistic),
        };
        Ok((value.ok_or(NoValue::Undefined)?, values.len()))
    }

    fn values(&self, metric: Metric) -> Result<Vec<f64>, NoValue> {
        let (values, defined) = match definition(metric) {
            Definition::Request(time) => {
                let values = self.request_times(time);
                let defined = values.len() > self.failed;
                (values, defined)
            }
            Definition::Gaps(gaps) => {
                let mut values = Vec::new();
                self.successes().for_each(|record| gaps(record, &mut values));
                let defined = !values.is_empty();
                (values, defined)
            }
            Definition::Refusals(time) => {
                let values: Vec<f64> = self.records.iter().filter_map(|record| time(record)).collect();
                return if values.is_empty() { Err(NoValue::NoRefusal) } else { Ok(values) };
            }
            Definition::Run(_) => return Err(NoValue::NoSuchStatistic),
        };
        let any_success = self.failed < self.records.len();
        match (any_success, defined, values.is_empty()) {
            // Answers came and none defines it: the failures alone do not make it a slow cell.
            (true, false, _) => Err(NoValue::Undefined),
            (false, _, true) => Err(NoValue::NoSuccess),
            _ => Ok(values),
        }
    }

    fn request_times(&self, time: fn(&Record) -> Option<f64>) -> Vec<f64> {
        self.records.iter().filter_map(|record| value(record, time)).collect()
    }
}

/// `+inf` for a failed request; none where its answer does not define the time.
fn value(record: &Record, time: fn(&Record) -> Option<f64>) -> Option<f64> {
    if record.is_success() { time(record) } else { Some(f64::INFINITY) }
}
