//! Runs a server: opens the broker, binds, says where, serves, and leaves within the bounds of the contract
//! (MCP contract, sections 1.2, 1.3 and 1.5).

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use clap::ArgMatches;
use futures_util::FutureExt;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;
use tracing::Level;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use super::announce::{self, Listening};
use crate::broker::{Broker, BrokerExt, Calls, DialError, LocalBroker, OpenError, RemoteBroker};
use crate::command::GetStats;
use crate::command::webhook::Addresses;
use crate::config::{Agent, Config, Http, Log, Program, Tcp, Webhooks};
use crate::docgen;
use crate::engine::{self, Durability};
use crate::handlers::Handlers;
use crate::http::{FIRST_PATHS, Guard, Pages};
use crate::mcp::http::{HttpConfig, ServeOptions};
use crate::mcp::{
    AgentHandler, DecisionModel, Disclosure, Dispatcher, Mode, Registry, RegistryError, Selection,
    SelectionError, ServerInfo, Transport, http, stdio,
};
use crate::metrics::{warn_of_memory, warn_of_storage};
use crate::net::{Tls, TlsError};
use crate::server::{self, FrameLimit, ServerOptions, Stop};
use crate::webhooks;

/// From the first signal or the end of input to the end of the process, open waits and slow clients included.
const STOP_MAX: Duration = Duration::from_millis(1_900);

/// Time between two lines of the log while a stop waits for active jobs.
const DRAIN_LINES: Duration = Duration::from_secs(5);

/// Why a server could not start.
enum Fatal {
    /// Nothing can listen there.
    Listen {
        address: String,
        error: std::io::Error,
    },
    /// The tools do not fit together: a fault of the build.
    Registry(RegistryError),
    /// A bad list of toolsets.
    Toolsets(SelectionError),
    /// Certificate or key cannot be used.
    Tls(TlsError),
    /// The data file cannot be used.
    DataFile {
        setting: String,
        path: PathBuf,
        error: OpenError,
    },
    /// The server that is the broker does not let this program in.
    Connect {
        address: String,
        error: Box<DialError>,
    },
    /// TLS cannot be set up for requests of ours.
    NoClient,
    /// The system refused something.
    System(std::io::Error),
}

impl fmt::Display for Fatal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listen { address, error } => {
                write!(f, "Failed to listen on {address}: {error}")?;
                if error.kind() == std::io::ErrorKind::AddrInUse {
                    f.write_str("; connect to what already listens there, or choose another port (0 takes any free one)")?;
                }
                Ok(())
            }
            Self::Toolsets(error) => write!(f, "{error}"),
            Self::Registry(problems) => {
                write!(f, "The tools of this build do not fit together: {problems}")
            }
            Self::Tls(error) => write!(f, "{error}"),
            Self::DataFile {
                setting,
                path,
                error,
            } => write!(f, "{setting} {path:?}: {error}"),
            Self::Connect { address, error } => {
                write!(f, "Failed to connect to {address}: {error}")?;
                match &**error {
                    DialError::Refused(_) => {
                        f.write_str("; BUNQUEUE_TOKEN has to be one of its tokens")
                    }
                    _ => Ok(()),
                }
            }
            Self::NoClient => {
                f.write_str("The decision model cannot be asked: TLS cannot be set up")
            }
            Self::System(error) => write!(f, "{error}"),
        }
    }
}

/// Runs `program` until a signal, or for stdio until the client is gone.
pub(super) fn run(program: Program, flags: &ArgMatches) -> ExitCode {
    let config = match super::load(program, flags) {
        Ok(config) => config,
        Err(error) => return announce::fatal(&error),
    };
    let log = config.log;
    start_log(log);
    for (variable, first) in &config.ignored {
        tracing::warn!("{variable} is ignored: {first} is set and comes first");
    }
    let runtime = match runtime() {
        Ok(runtime) => runtime,
        Err(error) => return announce::fatal_as(log, &error),
    };
    let ended = runtime.block_on(serve(program, config));
    // A read of standard input may still be pending and cannot be cancelled; the process does not wait for it.
    runtime.shutdown_background();
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(fatal) => announce::fatal_as(log, &fatal),
    }
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    // One handler that takes long must not stop the sockets.
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(cores.max(2))
        .enable_all()
        .build()
}

/// Logs to stderr: the program's own lines from the level on; those of its dependencies only when they warn, or when
/// somebody looks for a fault. The MCP library logs whole messages, and with them payloads and tokens: only its errors
/// ever show.
fn start_log(log: Log) {
    let foreign = if log.level > Level::INFO {
        log.level
    } else {
        log.level.min(Level::WARN)
    };
    let filter = Targets::new()
        .with_default(foreign)
        .with_target("rmcp", Level::ERROR)
        .with_target("bunqueue_mcp", log.level);
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let registry = tracing_subscriber::registry();
    let started = if log.json {
        registry.with(lines.json().with_filter(filter)).try_init()
    } else {
        registry
            .with(lines.with_ansi(false).with_filter(filter))
            .try_init()
    };
    debug_assert!(started.is_ok(), "logging is started once");
}

async fn serve(program: Program, config: Config) -> Result<(), Fatal> {
    let files = config.tls.as_ref();
    let tls = files
        .map(|(certificate, key)| Tls::read(certificate, key))
        .transpose()
        .map_err(Fatal::Tls)?;
    // Before anybody is told that it runs: a signal from then on must not simply kill it.
    let signals = Signals::new().map_err(Fatal::System)?;
    let (broker, calls) = open_broker(&config).await?;
    let stop = Stop::default();
    let shutdown = stop.serving.clone();
    let tools = AgentTools::new(&config.agent)?;
    let workers = match &config.tcp {
        Some(tcp) => Some((tcp, listen(&tcp.host, tcp.port).await?)),
        None => None,
    };
    let agents = match &config.http {
        Some(http) => Some((http, listen(&http.host, http.port).await?)),
        None => None,
    };
    let endpoint = agents.as_ref().map(|(settings, (_, address))| HttpConfig {
        known_paths: known_paths(program, settings),
        ..endpoint_config(settings, address.port(), tls.is_some())
    });
    let info = description(
        &config,
        endpoint.as_ref(),
        workers.as_ref().map(|(_, (_, address))| *address),
    );
    let hosts = config.agent.handler_hosts.clone();
    let handlers = Handlers::new(Arc::clone(&broker), hosts, shutdown.clone());
    let handlers = Arc::new(handlers);
    let dispatcher = tools.on(
        info,
        config.agent.confirm,
        Arc::clone(&broker),
        shutdown.clone(),
    );
    let dispatcher = dispatcher.with_handlers(Arc::clone(&handlers));
    let metrics = dispatcher.metrics().clone();
    let handler = AgentHandler::new(dispatcher).map_err(Fatal::System)?;

    let mut listening = Listening {
        data: config.data.clone(),
        is_remote: broker.is_remote(),
        ..Listening::default()
    };
    let mut doors = JoinSet::new();
    if let Some((settings, (listener, address))) = workers {
        listening.tcp = Some(address);
        listening.tls = tls.is_some();
        listening.tcp_tokens = !settings.tokens.is_empty();
        let options = worker_options(settings, config.metrics.labelled_queues, tls.clone());
        doors.spawn(server::serve(
            listener,
            Arc::clone(&broker),
            options,
            stop.clone(),
        ));
    }
    if let Some(((settings, (listener, address)), endpoint)) = agents.zip(endpoint) {
        let secure = tls.is_some();
        listening.url = Some(url(settings, address, secure));
        listening.http_tokens = !settings.tokens.is_empty();
        listening.mcp = settings.mcp;
        let pages = (program == Program::Serve).then(|| {
            let ask = config.metrics.with_token;
            Pages::new(
                Arc::clone(&broker),
                docgen::site_at(&base_url(settings, address, secure)),
                metrics,
                ask.then(|| Arc::new(http::token_check(&endpoint)) as Guard),
                stop.accepting.clone(),
            )
        });
        let app = routes(settings, &endpoint, handler.clone(), pages, &shutdown);
        let options = ServeOptions {
            tls,
            ..ServeOptions::default()
        };
        doors.spawn(http::serve(listener, app, options, shutdown.clone()));
    }
    match (program, config.log.json) {
        (_, true) => announce::logged(program == Program::Serve, &listening),
        (Program::Serve, false) => announce::serve(&listening),
        (Program::Mcp | Program::Both, false) => announce::mcp(&listening),
    }

    // Another server calls its webhooks itself.
    let courier = calls.map(|calls| {
        tokio::spawn(webhooks::serve(
            Arc::clone(&broker),
            calls,
            webhook_options(&config.webhooks),
            shutdown.clone(),
        ))
    });
    if let Some(threshold) = config.memory_warning.filter(|_| !broker.is_remote()) {
        let broker = Arc::clone(&broker);
        tokio::spawn(warn_of_memory(broker, threshold, shutdown.clone()));
    }
    if let Some(threshold) = config.storage_warning.filter(|_| !broker.is_remote()) {
        let broker = Arc::clone(&broker);
        tokio::spawn(warn_of_storage(broker, threshold, shutdown.clone()));
    }
    end_on_signal(signals, Arc::clone(&broker), stop, config.shutdown_timeout);
    end_in_time(shutdown.clone());
    if config.stdio {
        let (input, output) = stdio::standard_streams();
        if let Err(error) = stdio::serve_stdio(handler, input, output, shutdown.clone()).await {
            tracing::error!(%error, "the connection to the client broke");
        }
    } else {
        tokio::select! {
            // The doors end with it: that they have is no news then.
            biased;
            () = shutdown.cancelled() => {}
            _ = doors.join_next() => tracing::error!("a listener ended; the program ends with it"),
        }
    }
    // Before the connections are told: no job is handed to one that is closing.
    broker.shut_down();
    shutdown.cancel();
    while doors.join_next().await.is_some() {}
    handlers.ended().await;
    if let Some(courier) = courier {
        // It has nothing to finish, and ends with the token.
        let _ = courier.await;
    }
    broker.close().await;
    Ok(())
}

/// What agents get, checked before anything listens.
struct AgentTools {
    registry: Registry,
    selection: Selection,
    model: Option<Arc<DecisionModel>>,
}

impl AgentTools {
    fn new(settings: &Agent) -> Result<Self, Fatal> {
        let mut registry = Registry::new().map_err(Fatal::Registry)?;
        if settings.confirm {
            registry.list_confirmation(settings.decision.is_some());
        }
        let given = settings.toolsets.as_ref();
        let selection = registry
            .select(given.map(|given| (&*given.setting, &*given.value)))
            .map_err(Fatal::Toolsets)?;
        let is_dynamic = selection.disclosure() == Disclosure::Dynamic;
        if settings.decision.is_some() && !is_dynamic && !settings.confirm {
            tracing::warn!(
                "the decision model is never asked: it needs dynamic toolsets or confirmation"
            );
        }
        let model = settings.decision.clone().map(DecisionModel::new);
        let model = model.transpose().map_err(|error| {
            tracing::error!(%error, "no client for the decision model");
            Fatal::NoClient
        })?;
        Ok(Self {
            registry,
            selection,
            model: model.map(Arc::new),
        })
    }

    /// These tools on a broker.
    fn on(
        self,
        info: ServerInfo,
        is_confirming: bool,
        broker: Arc<dyn Broker>,
        shutdown: CancellationToken,
    ) -> Dispatcher {
        let registry = Arc::new(self.registry);
        let mut dispatcher = Dispatcher::on(info, registry, self.selection, broker, shutdown);
        if let Some(model) = self.model {
            dispatcher = dispatcher.with_model(model);
        }
        if is_confirming {
            dispatcher = dispatcher.confirming();
        }
        dispatcher
    }
}

/// What the server tells agents of itself; `tcp` is where workers reach it.
fn description(
    config: &Config,
    endpoint: Option<&HttpConfig>,
    tcp: Option<SocketAddr>,
) -> ServerInfo {
    let data = config.data.as_ref();
    ServerInfo {
        mode: if config.remote.is_some() {
            Mode::Remote
        } else {
            Mode::Embedded
        },
        durability: match data {
            _ if config.remote.is_some() => Durability::Remote,
            Some(data) => data.durability,
            None => Durability::None,
        },
        transport: match endpoint {
            Some(endpoint) if !config.stdio => Transport::Http(endpoint.facts()),
            _ => Transport::Stdio,
        },
        tcp_port: tcp.map(|address| address.port()),
        profile: config.agent.profile,
        labelled_queues: config.metrics.labelled_queues,
    }
}

async fn listen(host: &str, port: u16) -> Result<(TcpListener, SocketAddr), Fatal> {
    let fault = |error| Fatal::Listen {
        address: format!("{host}:{port}"),
        error,
    };
    let listener = http::bind(host, port).await.map_err(fault)?;
    let address = listener.local_addr().map_err(fault)?;
    Ok((listener, address))
}

/// The broker, and its calls of webhooks when it is in this process.
async fn open_broker(config: &Config) -> Result<(Arc<dyn Broker>, Option<Calls>), Fatal> {
    if let Some(remote) = &config.remote {
        let address = remote.address.clone();
        let connected = RemoteBroker::connect(address.clone(), remote.connections).await;
        let broker = connected.map_err(|error| Fatal::Connect {
            address: address.to_string(),
            error: Box::new(error),
        })?;
        return Ok((Arc::new(broker), None));
    }
    let broker = open_local(config)?;
    let calls = broker.webhook_calls();
    Ok((Arc::new(broker), Some(calls)))
}

/// The broker in this process, on its data file if it has one.
fn open_local(config: &Config) -> Result<LocalBroker, Fatal> {
    match &config.data {
        None => LocalBroker::start(engine_config(config)).map_err(Fatal::System),
        Some(data) => LocalBroker::open(engine_config(config), &data.path, data.durability)
            .map_err(|error| Fatal::DataFile {
                setting: config.data_setting.clone(),
                path: data.path.clone(),
                error,
            }),
    }
}

fn engine_config(config: &Config) -> engine::Config {
    let retention = config.retention;
    let kept = match &config.data {
        None => engine::Config {
            completed_max: retention.completed_max,
            ..engine::Config::default()
        },
        // The file has what leaves memory, so nothing is lost with it.
        Some(_) => engine::Config {
            completed_max: retention.stored_max,
            completed_in_memory_max: retention.completed_max,
            results_max: usize::MAX,
            ..engine::Config::default()
        },
    };
    engine::Config {
        completed_retention: config.retention.completed_age,
        worker_timeout: config.worker_timeout,
        private_webhooks: config.webhooks.private,
        notices: config.notices,
        ..kept
    }
}

fn webhook_options(settings: &Webhooks) -> webhooks::Options {
    webhooks::Options {
        attempts: settings.attempts,
        retry_delay: settings.retry_delay,
        addresses: Addresses::allowed(settings.private),
        ..webhooks::Options::default()
    }
}

fn worker_options(tcp: &Tcp, labelled_queues: usize, tls: Option<Tls>) -> ServerOptions {
    ServerOptions {
        tls,
        tokens: tcp.tokens.clone(),
        write_budget_bytes: tcp.write_budget,
        partial_frame_timeout: tcp.partial_frame_timeout,
        frame_limit: tcp
            .frame_limit
            .map(|(frames, window)| FrameLimit { frames, window }),
        labelled_queues,
    }
}

fn url(http: &Http, address: SocketAddr, secure: bool) -> String {
    let path = if http.mcp { http.path.as_str() } else { "" };
    format!("{}{path}", base_url(http, address, secure))
}

/// The address of the listener, by the name that it was given.
fn base_url(http: &Http, address: SocketAddr, secure: bool) -> String {
    let scheme = if secure { "https" } else { "http" };
    let usable = announce::usable(address);
    if usable != address {
        return format!("{scheme}://{usable}");
    }
    let host = if http.host.contains(':') {
        format!("[{}]", http.host)
    } else {
        http.host.clone()
    };
    format!("{scheme}://{host}:{}", address.port())
}

fn endpoint_config(settings: &Http, port: u16, tls: bool) -> HttpConfig {
    HttpConfig {
        tls,
        path: settings.path.clone(),
        allowed_hosts: settings.allowed_hosts.clone(),
        allowed_origins: settings.allowed_origins.clone(),
        tokens: settings.tokens.clone(),
        max_sessions: settings.max_sessions,
        session_ttl: settings.session_ttl,
        ..HttpConfig::new(settings.host.clone(), port)
    }
}

/// What is named to whoever asks for a path that is not there.
fn known_paths(program: Program, settings: &Http) -> Vec<String> {
    if program != Program::Serve {
        return Vec::new();
    }
    let endpoint = settings.mcp.then_some(settings.path.as_str());
    let paths = endpoint.into_iter().chain(FIRST_PATHS);
    paths.map(str::to_owned).collect()
}

fn routes(
    settings: &Http,
    config: &HttpConfig,
    handler: AgentHandler,
    pages: Option<Pages>,
    shutdown: &CancellationToken,
) -> Router {
    let endpoint = if settings.mcp {
        http::router(move || handler.for_another(), config, shutdown.clone())
    } else {
        http::unknown_paths(config)
    };
    match pages {
        Some(pages) => pages.router().merge(endpoint),
        None => endpoint,
    }
}

/// Ends the process when its time to stop is over, whatever holds the runtime or the broker then.
fn end_in_time(shutdown: CancellationToken) {
    tokio::spawn(async move {
        shutdown.cancelled().await;
        std::thread::spawn(|| {
            std::thread::sleep(STOP_MAX);
            tracing::warn!("the time to stop was over before everything was closed");
            #[expect(clippy::exit, reason = "nothing else ends a process that cannot go on")]
            std::process::exit(0);
        });
    });
}

/// Begins the stop at the first signal. With some patience for active jobs it then waits until none is left, the patience is
/// over or another signal comes; after that, a further signal changes nothing, as the end is bounded anyway.
fn end_on_signal(mut signals: Signals, broker: Arc<dyn Broker>, stop: Stop, patience: Duration) {
    tokio::spawn(async move {
        signals.next().await;
        stop.accepting.cancel();
        if !patience.is_zero() {
            drain(&*broker, &mut signals, patience).await;
        }
        broker.shut_down();
        stop.serving.cancel();
    });
}

/// Lets active jobs end, and says every now and then what is waited for.
async fn drain(broker: &dyn Broker, signals: &mut Signals, patience: Duration) {
    let drained = broker.stop_deliveries();
    tokio::pin!(drained);
    if drained.as_mut().now_or_never().is_some() {
        return;
    }
    let end = Instant::now() + patience;
    let mut looks = tokio::time::interval(DRAIN_LINES);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            () = &mut drained => return tracing::info!("no job is active any more"),
            () = signals.next() => {
                let active = active_jobs(broker).await;
                return tracing::warn!(active, "a second signal: active jobs are not waited for");
            }
            () = tokio::time::sleep_until(end) => {
                let active = active_jobs(broker).await;
                return tracing::warn!(active, "jobs were still active when the time for them was over");
            }
            // The first one at once.
            _ = looks.tick() => {
                let active = active_jobs(broker).await;
                let seconds_left = end.saturating_duration_since(Instant::now()).as_secs();
                tracing::info!(active, seconds_left, "waiting for active jobs; a second signal ends the wait at once");
            }
        }
    }
}

async fn active_jobs(broker: &dyn Broker) -> usize {
    let stats = broker.call(GetStats).await;
    stats.map_or(0, |stats| stats.jobs.active)
}

/// The signals that ask for an end. None is missed from the moment this exists.
struct Signals {
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
}

impl Signals {
    #[cfg(unix)]
    fn new() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    #[cfg(unix)]
    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }

    #[cfg(not(unix))]
    fn new() -> std::io::Result<Self> {
        Ok(Self {})
    }

    #[cfg(not(unix))]
    async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending().await
        }
    }
}
