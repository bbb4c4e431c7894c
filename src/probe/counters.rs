//! Reads a deployment's metrics page from a thread of its own, so that asking never holds up whoever asks.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::base::units::Nanos;
use crate::probe::control::{Answer, Control};
use crate::spec::target::MetricsPage;
use crate::wire::counters::{Meter, Quantity, Reading, Snapshot};
use crate::wire::exposition;

/// Longest time for one reading.
const LIMIT: Duration = Duration::from_secs(5);
/// The interrupt flag is looked at this often.
const INTERRUPT_CHECK: Duration = Duration::from_millis(20);

/// What never goes away again on the page of a server that goes on.
const COUNTERS: [(Quantity, &str); 5] = [
    (Quantity::PromptTokens, "prompt tokens"),
    (Quantity::GeneratedTokens, "generated tokens"),
    (Quantity::Preemptions, "preemptions"),
    (Quantity::CacheQueries, "look-ups in the prefix cache"),
    (Quantity::CacheHits, "hits of the prefix cache"),
];

/// An answer, and how long it took.
type Told = Result<(Answer, Nanos), String>;

/// Reads one page, one GET a reading.
pub struct PageMeter {
    /// The number of a reading, and when it was begun.
    ask: Sender<(u64, Instant)>,
    told: Receiver<(u64, Told)>,
    /// Readings that were begun.
    begun: u64,
    model: String,
    /// Counters that the page has told: they do not go away.
    known: BTreeSet<Quantity>,
    interrupt: Arc<AtomicBool>,
}

impl PageMeter {
    /// Looks at the page once. None when the page is not named and there is none where it usually is.
    ///
    /// # Errors
    /// Why the named page cannot be used.
    pub fn find(
        control: Control,
        page: &MetricsPage,
        model: &str,
        interrupt: Arc<AtomicBool>,
    ) -> Result<Option<Self>, String> {
        let (url, named) = match page {
            MetricsPage::Off => return Ok(None),
            MetricsPage::Usual => (control.beside("/metrics"), false),
            MetricsPage::At(place) => (control.beside(place), true),
        };
        let seen = control.page(&url, LIMIT).and_then(|answer| snapshot(&answer, model));
        match seen {
            Ok(seen) => Self::start(control, url, (model, counters(&seen)), interrupt).map(Some),
            Err(cause) if named => {
                Err(format!("the server's counters are not read: {url}: {cause}; check `metrics` of the target"))
            }
            Err(cause) => {
                tracing::info!("the server's counters are not read: {url}: {cause}");
                Ok(None)
            }
        }
    }

    fn start(
        control: Control,
        url: String,
        (model, known): (&str, BTreeSet<Quantity>),
        interrupt: Arc<AtomicBool>,
    ) -> Result<Self, String> {
        let (ask, asked) = channel::<(u64, Instant)>();
        let (tell, told) = channel();
        let work = move || {
            for (number, start) in asked {
                let answer = control.page(&url, LIMIT);
                let took = Nanos(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
                if tell.send((number, answer.map(|answer| (answer, took)))).is_err() {
                    break;
                }
            }
        };
        let thread = thread::Builder::new().name("counters".to_owned()).spawn(work);
        // It ends by itself when its questions end.
        thread.map(drop).map_err(|error| format!("the server's counters are not read: no thread: {error}"))?;
        Ok(Self { ask, told, begun: 0, model: model.to_owned(), known, interrupt })
    }

    /// The answer to the question of this number.
    fn answer(&self, number: u64) -> Told {
        let start = Instant::now();
        loop {
            match self.told.recv_timeout(INTERRUPT_CHECK) {
                Ok((of, told)) if of == number => return told,
                // An answer that nobody waited for.
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) if self.interrupt.load(Ordering::Relaxed) => {
                    return Err("interrupted".to_owned());
                }
                Err(RecvTimeoutError::Timeout) if start.elapsed() < 2 * LIMIT => {}
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    return Err("it did not answer".to_owned());
                }
            }
        }
    }
}

/// What a page tells, if it is a whole one of an engine.
fn snapshot(answer: &Answer, model: &str) -> Result<Snapshot, String> {
    let page = exposition::parse(&answer.body);
    let snapshot = Snapshot::of(&page, model);
    if page.cut {
        Err("it is too long to be read whole".to_owned())
    } else if snapshot.is_of_an_engine() {
        Ok(snapshot)
    } else {
        Err("it has no counter of an engine that is known".to_owned())
    }
}

/// The counters that it tells; levels may come and go.
fn counters(snapshot: &Snapshot) -> BTreeSet<Quantity> {
    COUNTERS.iter().map(|(counter, _)| *counter).filter(|counter| snapshot.get(*counter).is_some()).collect()
}

impl Meter for PageMeter {
    fn begin(&mut self) -> u64 {
        self.begun += 1;
        if self.ask.send((self.begun, Instant::now())).is_err() {
            tracing::debug!("the thread that reads the counters is gone");
        }
        self.begun
    }

    fn reading(&mut self, number: u64) -> Result<Reading, String> {
        let (answer, took) = self.answer(number)?;
        let snapshot = snapshot(&answer, &self.model)?;
        let told = counters(&snapshot);
        if let Some((_, name)) = COUNTERS.iter().find(|(it, _)| self.known.contains(it) && !told.contains(it)) {
            return Err(format!("it no longer tells {name}"));
        }
        self.known = told;
        Ok(Reading { snapshot, took, at_unix_s: answer.at_unix_s })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::control::tests::{answer, control, server};

    fn find(script: fn(usize, &str) -> String, page: &MetricsPage) -> Result<Option<PageMeter>, String> {
        PageMeter::find(control(server(script)), page, "m", Arc::new(AtomicBool::new(false)))
    }

    fn page(tokens: usize) -> String {
        let body = format!("vllm:generation_tokens_total{{model_name=\"m\"}} {tokens}.0\n");
        answer("200 OK\r\ndate: Sun, 06 Nov 1994 08:49:37 GMT", &body)
    }

    #[test]
    fn readings_are_begun_and_taken_later_in_order() {
        let mut meter = find(|number, _| page(10 * number), &MetricsPage::Usual).unwrap().unwrap();
        let [_, second, third] = [(); 3].map(|()| meter.begin());
        let reading = meter.reading(second).unwrap();
        assert_eq!(reading.snapshot.get(Quantity::GeneratedTokens), Some(20.0), "the first answer was dropped");
        assert_eq!(reading.at_unix_s, Some(784_111_777.0));
        assert_eq!(meter.reading(third).unwrap().snapshot.get(Quantity::GeneratedTokens), Some(30.0));
        let last = meter.begin();
        assert_eq!(meter.reading(last).unwrap().snapshot.get(Quantity::GeneratedTokens), Some(40.0));
    }

    #[test]
    fn only_a_page_that_was_named_is_missed() {
        let missing: fn(usize, &str) -> String = |_, _| answer("404 Not Found", "{}");
        assert!(find(missing, &MetricsPage::Usual).unwrap().is_none());
        assert!(find(|_, _| page(1), &MetricsPage::Off).unwrap().is_none());
        let named = find(missing, &MetricsPage::At("/prom".to_owned())).err().unwrap();
        assert!(named.contains("/prom: it answered 404 Not Found; check `metrics`"), "{named}");
        let other = find(|_, _| answer("200 OK", "go_goroutines 7\n"), &MetricsPage::At("/prom".to_owned()));
        assert!(other.err().unwrap().contains("no counter of an engine"));
    }

    #[test]
    fn a_reading_that_fails_says_why() {
        let script: fn(usize, &str) -> String =
            |number, _| if number == 0 { page(1) } else { answer("500 Internal Server Error", "") };
        let mut meter = find(script, &MetricsPage::Usual).unwrap().unwrap();
        let number = meter.begin();
        assert_eq!(meter.reading(number).unwrap_err(), "it answered 500 Internal Server Error");
    }

    #[test]
    fn a_page_that_stops_being_the_engines_is_no_reading() {
        const PAGE: &str = "vllm:generation_tokens_total 5\nvllm:prompt_tokens_total 7\nvllm:num_requests_running 1\n";
        fn becomes(script: fn(usize, &str) -> String) -> Result<Reading, String> {
            let mut meter = find(script, &MetricsPage::Usual).unwrap().unwrap();
            let number = meter.begin();
            meter.reading(number)
        }
        fn after(number: usize, then: &str) -> String {
            answer("200 OK", if number == 0 { PAGE } else { then })
        }
        let engine = "no counter of an engine";
        let html: fn(usize, &str) -> String = |number, _| after(number, "<html>sign in</html>");
        assert!(becomes(html).unwrap_err().contains(engine));
        assert!(becomes(|number, _| after(number, "")).unwrap_err().contains(engine));
        assert!(becomes(|number, _| after(number, "\u{1f}\u{8b}\u{8}\0")).unwrap_err().contains(engine));
        let gone = becomes(|number, _| after(number, "vllm:prompt_tokens_total 8\nvllm:num_requests_running 1\n"));
        assert_eq!(gone.unwrap_err(), "it no longer tells generated tokens");
        let bucket = becomes(|number, _| {
            after(number, "vllm:generation_tokens_total_bucket{le=\"1\"} 3\nvllm:prompt_tokens_total 8\n")
        });
        assert_eq!(bucket.unwrap_err(), "it no longer tells generated tokens");
        // More lines than are read, among them what is looked for.
        let long = becomes(|number, _| after(number, &format!("{PAGE}{}", "x 1\n".repeat(200_001))));
        assert!(long.unwrap_err().contains("too long"));
        // A level may go.
        let levels = becomes(|number, _| after(number, "vllm:generation_tokens_total 6\nvllm:prompt_tokens_total 8\n"));
        assert_eq!(levels.unwrap().snapshot.get(Quantity::GeneratedTokens), Some(6.0));
    }

    #[test]
    fn the_key_goes_only_to_the_target_itself() {
        let keyed: fn(usize, &str) -> String =
            |_, request| if request.contains("sk-test") { page(1) } else { answer("401 Unauthorized", "") };
        assert!(find(keyed, &MetricsPage::Usual).unwrap().is_some());
        let elsewhere = format!("http://{}/metrics", server(keyed));
        let error = find(keyed, &MetricsPage::At(elsewhere)).err().unwrap();
        assert!(error.contains("401"), "{error}");
    }
}
