//! The metrics page, with vLLM's names, labels and histogram bounds (0.32), in Prometheus text.

use std::fmt::Write as _;

use crate::base::units::Nanos;
use crate::sim::engine::Gauges;
use crate::sim::prefix::Lookups;

/// Bounds of the histograms, seconds.
const TTFT: &[f64] = &[
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
    160.0, 640.0, 2_560.0,
];
const ITL: &[f64] =
    &[0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0];
const E2E: &[f64] = &[
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0,
    1_920.0, 7_680.0,
];

/// Counts per bound, and their sum.
#[derive(Clone, Debug)]
struct Histogram {
    bounds: &'static [f64],
    /// Not cumulative; the last one is beyond all bounds.
    counts: Vec<u64>,
    sum: f64,
}

impl Histogram {
    fn new(bounds: &'static [f64]) -> Self {
        Self { bounds, counts: vec![0; bounds.len() + 1], sum: 0.0 }
    }

    fn add(&mut self, time: Nanos) {
        let seconds = time.as_secs();
        let bucket = self.bounds.partition_point(|bound| *bound < seconds);
        if let Some(count) = self.counts.get_mut(bucket) {
            *count += 1;
        }
        self.sum += seconds;
    }
}

/// How a request ended, as vLLM labels it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finished {
    Stop,
    Length,
    Abort,
}

/// Everything the page shows.
#[derive(Clone, Debug)]
pub(super) struct Meter {
    pub(super) gauges: Gauges,
    prompt_tokens: u64,
    generation_tokens: u64,
    stopped: u64,
    by_length: u64,
    aborted: u64,
    ttft: Histogram,
    itl: Histogram,
    e2e: Histogram,
}

impl Meter {
    pub(super) fn new(gauges: Gauges) -> Self {
        Self {
            gauges,
            prompt_tokens: 0,
            generation_tokens: 0,
            stopped: 0,
            by_length: 0,
            aborted: 0,
            ttft: Histogram::new(TTFT),
            itl: Histogram::new(ITL),
            e2e: Histogram::new(E2E),
        }
    }

    pub(super) fn first_token(&mut self, after: Nanos, prompt_tokens: u32) {
        self.prompt_tokens += u64::from(prompt_tokens);
        self.generation_tokens += 1;
        self.ttft.add(after);
    }

    pub(super) fn further_token(&mut self, gap: Nanos) {
        self.generation_tokens += 1;
        self.itl.add(gap);
    }

    pub(super) fn finished(&mut self, how: Finished, after: Nanos) {
        *match how {
            Finished::Stop => &mut self.stopped,
            Finished::Length => &mut self.by_length,
            Finished::Abort => &mut self.aborted,
        } += 1;
        if how != Finished::Abort {
            self.e2e.add(after);
        }
    }

    /// The page.
    pub(super) fn page(&self, model: &str, block_tokens: u32) -> String {
        let mut page = Page { text: String::new(), labels: format!("engine=\"0\",model_name=\"{model}\"") };
        let gauges = &self.gauges;
        let usage = f64::from(gauges.used_blocks) / f64::from(gauges.total_blocks.max(1));
        page.one("num_requests_running", "gauge", "Requests in the batch.", gauges.running);
        page.one("num_requests_waiting", "gauge", "Requests in the queue.", gauges.waiting);
        page.one("kv_cache_usage_perc", "gauge", "Share of the cache in use, 1 is all of it.", usage);
        page.one("num_preemptions_total", "counter", "Preemptions since the start.", gauges.preemptions);
        page.one("prompt_tokens_total", "counter", "Prompt tokens computed.", self.prompt_tokens);
        page.one("generation_tokens_total", "counter", "Output tokens.", self.generation_tokens);
        page.head("request_success_total", "counter", "Requests that ended, by reason.");
        for (reason, count) in [("stop", self.stopped), ("length", self.by_length), ("abort", self.aborted)] {
            page.sample("request_success_total", &format!(",finished_reason=\"{reason}\""), count);
        }
        page.histogram("time_to_first_token_seconds", "Arrival to first token.", &self.ttft);
        page.histogram("inter_token_latency_seconds", "Gaps between tokens.", &self.itl);
        page.histogram("e2e_request_latency_seconds", "Arrival to last token.", &self.e2e);
        if let Some(Lookups { queries, hits }) = gauges.prefixes {
            page.one("prefix_cache_queries_total", "counter", "Prompt tokens looked up in the prefix cache.", queries);
            page.one("prefix_cache_hits_total", "counter", "Prompt tokens found there.", hits);
        }
        page.head("cache_config_info", "gauge", "Configuration of the key-value cache.");
        let cache = format!(
            ",block_size=\"{block_tokens}\",cache_dtype=\"auto\",enable_prefix_caching=\"{}\",num_gpu_blocks=\"{}\"",
            if gauges.prefixes.is_some() { "True" } else { "False" },
            gauges.total_blocks
        );
        page.sample("cache_config_info", &cache, 1);
        page.text
    }
}

struct Page {
    text: String,
    labels: String,
}

impl Page {
    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // A String takes everything.
        let written = self.text.write_fmt(line);
        debug_assert!(written.is_ok());
        self.text.push('\n');
    }

    fn head(&mut self, name: &str, kind: &str, help: &str) {
        self.line(format_args!("# HELP vllm:{name} {help}"));
        self.line(format_args!("# TYPE vllm:{name} {kind}"));
    }

    fn sample(&mut self, name: &str, more_labels: &str, value: impl std::fmt::Display) {
        let labels = std::mem::take(&mut self.labels);
        self.line(format_args!("vllm:{name}{{{labels}{more_labels}}} {value}"));
        self.labels = labels;
    }

    fn one(&mut self, name: &str, kind: &str, help: &str, value: impl std::fmt::Display) {
        self.head(name, kind, help);
        self.sample(name, "", value);
    }

    fn histogram(&mut self, name: &str, help: &str, histogram: &Histogram) {
        self.head(name, "histogram", help);
        let mut total = 0;
        let bounds = histogram.bounds.iter().map(|bound| format!("{bound:?}")).chain(["+Inf".to_owned()]);
        for (bound, count) in bounds.zip(&histogram.counts) {
            total += count;
            self.sample(&format!("{name}_bucket"), &format!(",le=\"{bound}\""), total);
        }
        self.sample(&format!("{name}_count"), "", total);
        self.sample(&format!("{name}_sum"), "", histogram.sum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_counts_what_happened_in_cumulative_buckets() {
        let mut meter = Meter::new(Gauges { total_blocks: 25_000, used_blocks: 5_000, ..Gauges::default() });
        meter.first_token(Nanos::from_millis(23), 512);
        meter.further_token(Nanos::from_micros(6_440));
        meter.further_token(Nanos::from_millis(30));
        meter.finished(Finished::Length, Nanos::from_millis(60));
        let page = meter.page("m", 16);
        for line in [
            "# TYPE vllm:num_requests_running gauge",
            "vllm:kv_cache_usage_perc{engine=\"0\",model_name=\"m\"} 0.2",
            "vllm:prompt_tokens_total{engine=\"0\",model_name=\"m\"} 512",
            "vllm:generation_tokens_total{engine=\"0\",model_name=\"m\"} 3",
            "vllm:request_success_total{engine=\"0\",model_name=\"m\",finished_reason=\"length\"} 1",
            "vllm:inter_token_latency_seconds_bucket{engine=\"0\",model_name=\"m\",le=\"0.01\"} 1",
            "vllm:inter_token_latency_seconds_bucket{engine=\"0\",model_name=\"m\",le=\"0.025\"} 1",
            "vllm:inter_token_latency_seconds_bucket{engine=\"0\",model_name=\"m\",le=\"0.05\"} 2",
            "vllm:inter_token_latency_seconds_bucket{engine=\"0\",model_name=\"m\",le=\"+Inf\"} 2",
            "vllm:time_to_first_token_seconds_sum{engine=\"0\",model_name=\"m\"} 0.023",
        ] {
            assert!(page.lines().any(|other| other == line), "{line}\n{page}");
        }
    }
}
