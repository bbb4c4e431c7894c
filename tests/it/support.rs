//! What the behaviour tests share: a folder with files of a user, the real binary in it, and servers to measure.

use std::ffi::OsStr;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use servegate::artifact::record::{Outcome, Record};
use servegate::artifact::run::Run;
use servegate::base::rng::Stream;
use servegate::sim::Deployment;
use servegate::sim::fault::{Fault, Share};
use servegate::sim::noise::Noise;
use servegate::sim::profile::Profile;
use servegate::sim::server::{Options, Server};
use servegate::store::runs::read_run;
use tempfile::TempDir;
use tokio::sync::oneshot;

/// The simulated engine serves this model.
pub(crate) const MODEL: &str = "llama-3.1-8b";
/// Whatever a test waits for has come by then, on the slowest machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// How a command ended and what it said.
pub(crate) struct Ended {
    /// The exit code; none after a signal.
    pub(crate) code: Option<i32>,
    /// Data.
    pub(crate) stdout: String,
    /// Everything else.
    pub(crate) stderr: String,
}

impl Ended {
    pub(crate) fn of(output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        Self { code: output.status.code(), stdout: text(&output.stdout), stderr: text(&output.stderr) }
    }

    /// Checks the exit code.
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    /// Checks that stderr holds every one of these texts.
    #[track_caller]
    pub(crate) fn says(self, texts: &[&str]) -> Self {
        for text in texts {
            assert!(self.stderr.contains(text), "no `{text}` in stderr:\n{}\nstdout:\n{}", self.stderr, self.stdout);
        }
        self
    }

    /// Checks that stdout holds every one of these texts.
    #[track_caller]
    pub(crate) fn shows(self, texts: &[&str]) -> Self {
        for text in texts {
            assert!(self.stdout.contains(text), "no `{text}` in stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        }
        self
    }
}

/// A folder of a user, and the binary in it with nothing of the environment but the path.
pub(crate) struct Scene {
    dir: TempDir,
}

impl Scene {
    /// A folder with the workload `w.yaml` (20 short requests, two in flight) and the policy `p.yaml`.
    pub(crate) fn new() -> Self {
        let scene = Self { dir: tempfile::tempdir().unwrap() };
        scene.write("w.yaml", &workload("tiny", 20, 8));
        scene.write("p.yaml", &policy("tiny", "w.yaml"));
        scene
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// The binary, ready to start.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_servegate"));
        command.current_dir(self.dir.path()).env_clear().stdin(Stdio::null());
        if let Some(path) = std::env::var_os("PATH") {
            command.env("PATH", path);
        }
        command
    }

    /// Runs the binary to its end.
    pub(crate) fn run<A: AsRef<OsStr>>(&self, args: &[A]) -> Ended {
        Ended::of(&self.command().args(args).output().expect("the binary starts"))
    }

    /// Runs a command line, split at spaces.
    pub(crate) fn line(&self, line: &str) -> Ended {
        self.run(&line.split(' ').collect::<Vec<_>>())
    }

    /// `measure` of `w.yaml` at a server, with further options.
    pub(crate) fn measure(&self, url: &str, more: &str) -> Ended {
        self.line(&format!("measure --workload w.yaml --url {url} --model {MODEL} --ignore-eos {more}"))
    }

    /// `run` of `p.yaml` at a server, with further options.
    pub(crate) fn gate(&self, url: &str, more: &str) -> Ended {
        self.line(format!("run --policy p.yaml --url {url} --model {MODEL} --ignore-eos {more}").trim_end())
    }

    /// Starts the binary and waits until a run in `out` has records on the way to the disk.
    pub(crate) fn start_measuring(&self, url: &str, out: &str) -> Child {
        let line =
            format!("measure --workload w.yaml --url {url} --model {MODEL} --ignore-eos --session s --out {out}");
        let mut command = self.command();
        command.args(line.split(' ')).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().expect("the binary starts");
        let records = self.path(out).join("s-00-baseline.partial/records.jsonl.zst");
        wait_for(|| fs::metadata(&records).is_ok_and(|file| file.len() > 0));
        child
    }

    /// A stored run.
    pub(crate) fn stored(&self, folder: &str) -> Run {
        read_run(&self.path(folder)).unwrap()
    }

    /// How many records of a run had this outcome, of how many.
    pub(crate) fn outcomes(&self, folder: &str, outcome: Outcome) -> (usize, usize) {
        let records: Vec<Record> = self.stored(folder).records;
        (records.iter().filter(|record| record.outcome == outcome).count(), records.len())
    }

    /// Every file below a folder.
    pub(crate) fn files(&self, name: &str) -> Vec<PathBuf> {
        let (mut files, mut folders) = (Vec::new(), vec![self.path(name)]);
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() { folders.push(path) } else { files.push(path) }
            }
        }
        files
    }
}

/// A workload of one cell `c2`, two requests in flight.
pub(crate) fn workload(name: &str, requests: u32, output_tokens: u32) -> String {
    format!(
        "servegate: 1\nkind: workload\nname: {name}\ncells:\n  - name: c2\n    concurrency: 2\n    requests: {requests}\n    \
         warmup: 2\n    prompt_tokens: 16\n    output_tokens: {output_tokens}\n    timeout: 20s\n    stall_timeout: 400ms\n"
    )
}

/// A policy with margins that no noise of a busy machine reaches.
pub(crate) fn policy(name: &str, workload: &str) -> String {
    format!(
        "servegate: 1\nkind: policy\nname: {name}\nworkload: {workload}\nruns: 3\ncontrols: 2\nchecks:\n  - metric: tpot\n    \
         statistic: p50\n    at_most: 50%\n    floor: 50ms\n  - metric: error_rate\n    at_most: 5pp\n    role: guard\n"
    )
}

/// Waits until something holds.
#[track_caller]
pub(crate) fn wait_for(mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "waited in vain");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Sends a signal to a process that a test has started, and gives what it left.
pub(crate) fn signal(child: Child, name: &str) -> Ended {
    let sent = Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    Ended::of(&child.wait_with_output().unwrap())
}

/// The simulated engine on the loopback; it ends with the value.
pub(crate) struct Engine {
    addr: SocketAddr,
    _stop: oneshot::Sender<()>,
}

impl Engine {
    /// An engine whose step takes so many milliseconds and everything else next to nothing.
    pub(crate) fn quick(step_ms: f64) -> Self {
        Self::start(&deployment(step_ms), Options::default())
    }

    /// An engine that makes a mistake in every second answer, but not in the first.
    pub(crate) fn faulty(fault: Fault) -> Self {
        Self::wrong(fault, 0.5)
    }

    /// An engine that makes a mistake in its first answer, and not in the second.
    pub(crate) fn faulty_at_first(fault: Fault) -> Self {
        Self::with_fault(fault, 0.5, |stream| stream.uniform() < 0.5 && stream.uniform() >= 0.5)
    }

    /// An engine with a fault in this share of its answers.
    pub(crate) fn wrong(fault: Fault, share: f64) -> Self {
        // The first request is the preflight, which meets no fault of half of all.
        Self::with_fault(fault, share, |stream| stream.uniform() >= 0.5)
    }

    /// A boot is looked for whose dealt shares are as wanted.
    fn with_fault(fault: Fault, share: f64, wanted: impl Fn(&mut Stream) -> bool) -> Self {
        let mut deployment = deployment(0.3);
        let boot = (0..1_000).find(|boot| wanted(&mut Stream::named(*boot, "sim/faults"))).unwrap();
        deployment.noise = Noise::seeded(boot, boot);
        deployment.faults.push(Share { fault, share });
        Self::start(&deployment, Options::default())
    }

    /// An engine that asks for a key.
    pub(crate) fn locked(key: &str) -> Self {
        Self::start(&deployment(0.3), Options { api_key: Some(key.to_owned()), ..Options::default() })
    }

    /// An engine of the test's own.
    pub(crate) fn of(deployment: &Deployment) -> Self {
        Self::start(deployment, Options::default())
    }

    fn start(deployment: &Deployment, options: Options) -> Self {
        let (stop, stopped) = oneshot::channel::<()>();
        let (told, addr) = oneshot::channel();
        let deployment = deployment.clone();
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let server = Server::bind("127.0.0.1:0".parse().unwrap(), &deployment, options).await.unwrap();
                told.send(server.addr()).unwrap();
                server.serve(async { drop(stopped.await) }).await;
            });
        });
        Self { addr: addr.blocking_recv().unwrap(), _stop: stop }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.addr)
    }
}

/// A deployment whose step takes so many milliseconds and everything else next to nothing.
pub(crate) fn deployment(step_ms: f64) -> Deployment {
    let mut profile = Profile::h100_8b();
    let still =
        ["fixed_ms", "token_us", "request_us", "kv_read_ns", "attention_ps", "frontend_ms", "tokenise_us", "api_ms"];
    for name in still {
        profile.set(&format!("{name}=0")).unwrap();
    }
    profile.set("flush_us=1").unwrap();
    profile.set(&format!("weights_ms={step_ms}")).unwrap();
    Deployment::new(profile, Noise::OFF)
}

/// A server that answers every request, whatever it is, by a script: a GET on `/v1/models` and the like, or a POST.
/// The address lives until the process ends.
pub(crate) fn scripted(answer: impl Fn(&str, &mut TcpStream) + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let answer = Arc::new(answer);
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let answer = Arc::clone(&answer);
            thread::spawn(move || {
                if let Some(head) = request(&mut stream) {
                    answer(&head, &mut stream);
                }
            });
        }
    });
    url
}

/// Reads one request; gives its head.
fn request(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
            });
            if body.len() >= length.unwrap_or(0) {
                return Some(head.to_owned());
            }
        }
        let count = stream.read(&mut buffer).ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&buffer[..count]);
    }
}

/// Sends a whole answer and closes. A client that has seen enough may be gone.
pub(crate) fn answer(stream: &mut TcpStream, status: &str, kind: &str, body: &str) {
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    drop(stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes())));
}

/// Whether a file holds these bytes.
pub(crate) fn holds(path: &Path, wanted: &[u8]) -> bool {
    fs::read(path).unwrap().windows(wanted.len()).any(|window| window == wanted)
}

/// The method of a request.
pub(crate) fn method(head: &str) -> &str {
    head.split(' ').next().unwrap_or_default()
}
