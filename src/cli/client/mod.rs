//! A client of a running daemon's HTTP interface, shared by `import`, `tail` and `top`.
//!
//! Blocking: callers that must not wait use a thread of their own, as `tail` does for streams.
//! Every request has time limits and every answer a size limit. Proxies of the environment are
//! ignored: they are for the outside world. Credentials ([`credentials`]) come from the address, a
//! file or the environment and accompany every request.

use std::io::{BufReader, Read};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args as FlagGroup;
use serde::Serialize;
use serde_json::Value as Json;
use thiserror::Error;
use ureq::config::ConfigBuilder;
use ureq::http::{Request, Response};
use ureq::typestate::AgentScope;
use ureq::{Agent, Body, Timeout};

use crate::access::roots;
use crate::cli::format;
use crate::config::Config;
use crate::config::secret::Secret;
use crate::config::units::exact_duration;

pub mod address;
pub mod credentials;

const JSON: &str = "application/json";
/// Longest wait for a connection.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// Longest wait for an answer: filling a report from a full pool may take seconds.
const ANSWER_MAX: Duration = Duration::from_secs(120);
/// Longest silence of a stream: three heartbeats.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// Longest answer that is read, in bytes.
const ANSWER_BYTES_MAX: u64 = 256 << 20;
/// Longest error answer that is read, in bytes.
const REFUSAL_BYTES_MAX: u64 = 64 << 10;

/// Which daemon, and as whom.
#[derive(Debug, Clone, FlagGroup)]
pub struct ClientFlags {
    /// The daemon; http or https, and it may hold a name and a password:
    /// https://user:password@host:30080.
    #[arg(long, visible_alias = "http", value_name = "URL")]
    #[arg(default_value = "http://127.0.0.1:30080")]
    pub url: String,
    /// Credentials and trust.
    #[command(flatten)]
    pub access: AccessFlags,
}

/// The credentials that are sent, and the authorities that are trusted.
#[derive(Debug, Clone, Default, FlagGroup)]
pub struct AccessFlags {
    /// A file that holds the token to send [default: what PINBAD_TOKEN holds, if anything].
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// A PEM file with the certificate authorities to trust [default: those of the system].
    #[arg(long, value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
    /// The certificate of the daemon itself, where the configuration that is asked for names it.
    #[arg(skip)]
    pub own_certificate: Option<PathBuf>,
}

impl AccessFlags {
    /// Trusts the certificate of a configuration too, to ask its daemon on this machine.
    pub fn trusting(&self, config: &Config) -> Self {
        Self { own_certificate: config.http.tls_cert.clone(), ..self.clone() }
    }
}

/// An error of a request to the daemon.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ClientError {
    /// The address, the token file or the like is wrong.
    #[error("{0}")]
    Usage(String),
    /// Nothing listens there, or the connection broke.
    #[error("{url}: {problem}")]
    Unreachable {
        /// The URL of the daemon.
        url: String,
        /// The error.
        problem: String,
    },
    /// The answer came from something else.
    #[error("{url}: this is not pinbad: it answered {answered}")]
    NotOurs {
        /// The URL requested.
        url: String,
        /// The answer.
        answered: String,
    },
    /// A refusal, in the daemon's words.
    #[error("{detail}")]
    Refused {
        /// The status, for instance 404.
        status: u16,
        /// The reason.
        detail: String,
    },
}

/// Method, media type and body of a request that is not a GET.
type Sent<'a> = (&'a str, &'a str, &'a [u8]);

/// A client of one daemon.
#[derive(Debug, Clone)]
pub struct Client {
    url: String,
    /// The value of the header `Authorization`.
    authorization: Option<Secret>,
    agent: Agent,
    /// Longest wait for an answer that is not a stream.
    longest: Duration,
}

impl Client {
    /// A client for the daemon at this URL (`http://127.0.0.1:30080`, the scheme may be left out).
    /// A name and password in it take precedence over the token of the flags or the environment.
    /// Sends nothing yet.
    ///
    /// # Errors
    /// [`ClientError::Usage`].
    pub fn at(url: &str, flags: &AccessFlags) -> Result<Self, ClientError> {
        let token = credentials::token(flags.token_file.as_deref()).map_err(ClientError::Usage)?;
        let (url, own) = address::split(url).map_err(ClientError::Usage)?;
        let roots = ("--ca-file", flags.ca_file.as_deref());
        let agent = roots::agent(settings(), &url, roots, flags.own_certificate.as_deref());
        let agent = agent.map_err(ClientError::Usage)?;
        Ok(Self { url, authorization: own.or(token), agent, longest: ANSWER_MAX })
    }

    /// A client that believes whatever answers, and therefore sends no credentials: to find out
    /// whether a daemon is there.
    ///
    /// # Errors
    /// [`ClientError::Usage`].
    pub fn credulous(url: &str) -> Result<Self, ClientError> {
        let (url, authorization) = address::split(url).map_err(ClientError::Usage)?;
        let agent = roots::credulous_agent(settings());
        Ok(Self { url, authorization, agent, longest: ANSWER_MAX })
    }

    /// Sets another time limit for answers.
    pub fn patient_for(mut self, longest: Duration) -> Self {
        self.longest = longest;
        self
    }

    /// The URL, without name and password.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Sends GET and returns the JSON answer.
    ///
    /// # Errors
    /// Fails if there is no daemon, or it refuses.
    pub fn get(&self, path: &str) -> Result<Json, ClientError> {
        self.ask(path, None, 200)
    }

    /// Sends JSON by POST and returns the JSON answer if it has the `wanted` status.
    ///
    /// # Errors
    /// Fails if there is no daemon, or it refuses.
    pub fn post(
        &self,
        path: &str,
        json: &impl Serialize,
        wanted: u16,
    ) -> Result<Json, ClientError> {
        self.ask(path, Some(("POST", JSON, &written(json))), wanted)
    }

    /// Sends DELETE and returns the JSON answer.
    ///
    /// # Errors
    /// Fails if there is no daemon, or it refuses.
    pub fn delete(&self, path: &str) -> Result<Json, ClientError> {
        self.ask(path, Some(("DELETE", JSON, b"")), 200)
    }

    /// Sends bytes by POST and returns the JSON answer.
    ///
    /// # Errors
    /// Fails if there is no daemon, or it refuses.
    pub fn send_bytes(&self, path: &str, bytes: &[u8]) -> Result<Json, ClientError> {
        self.ask(path, Some(("POST", "application/octet-stream", bytes)), 200)
    }

    fn ask(&self, path: &str, sent: Option<Sent<'_>>, wanted: u16) -> Result<Json, ClientError> {
        let mut answer = self.send(path, sent, false)?;
        let text = read(&mut answer, ANSWER_BYTES_MAX);
        let text = text.map_err(|problem| self.unreachable(problem))?;
        let status = answer.status().as_u16();
        match serde_json::from_str(&text).map_err(|_| text.chars().take(80).collect()) {
            Ok(json) if status == wanted => Ok(json),
            body => Err(self.refusal(path, status, body)),
        }
    }

    /// Sends GET, or JSON by POST, and returns the body as a reader, for long or endless answers.
    ///
    /// # Errors
    /// Fails if there is no daemon, or it refuses.
    pub fn stream(
        &self,
        path: &str,
        json: Option<&Json>,
    ) -> Result<impl Read + use<>, ClientError> {
        let json = json.map(written);
        let sent = json.as_ref().map(|json| ("POST", JSON, &json[..]));
        let mut answer = self.send(path, sent, true)?;
        let status = answer.status().as_u16();
        if status != 200 {
            let text = read(&mut answer, REFUSAL_BYTES_MAX).unwrap_or_default();
            let json = serde_json::from_str(&text).map_err(|_| text);
            return Err(self.refusal(path, status, json));
        }
        Ok(BufReader::new(answer.into_body().into_reader()))
    }

    /// Sends a request with the credentials.
    fn send(
        &self,
        path: &str,
        sent: Option<Sent<'_>>,
        stream: bool,
    ) -> Result<Response<Body>, ClientError> {
        let mut request = Request::builder().uri(format!("{}{path}", self.url));
        if let Some(authorization) = &self.authorization {
            request = request.header("authorization", authorization.reveal());
        }
        if let Some((method, media_type, _)) = sent {
            request = request.method(method).header("content-type", media_type);
        }
        let request = request.body(sent.map_or(&[][..], |(.., body)| body));
        let request = request.map_err(|error| self.unreachable(error.to_string()))?;
        let request = self.agent.configure_request(request);
        let (request, longest) = match stream {
            true => {
                let request = request.timeout_recv_response(Some(SILENCE_MAX));
                (request.timeout_per_read(Some(SILENCE_MAX)), SILENCE_MAX)
            }
            false => (request.timeout_global(Some(self.longest)), self.longest),
        };
        self.agent.run(request.build()).map_err(|error| {
            self.unreachable(match error {
                ureq::Error::Timeout(Timeout::Connect) => {
                    format!("no connection within {}", exact_duration(CONNECT_MAX))
                }
                ureq::Error::Timeout(Timeout::Global | Timeout::RecvResponse) => {
                    format!("no answer within {}", exact_duration(longest))
                }
                error => message_of(&error),
            })
        })
    }

    fn unreachable(&self, problem: String) -> ClientError {
        ClientError::Unreachable { url: self.url.clone(), problem }
    }

    /// The error for an unexpected answer: a refusal in the daemon's own form, or an answer from
    /// something else.
    pub fn refusal(&self, path: &str, status: u16, body: Result<Json, String>) -> ClientError {
        let detail = |body: &Json| Some(body.get("detail")?.as_str()?.to_owned());
        let text = match body {
            Ok(body) => match detail(&body).filter(|_| status != 200) {
                Some(detail) => return ClientError::Refused { status, detail },
                None => String::new(),
            },
            Err(text) => text,
        };
        let line = text.lines().next().unwrap_or_default().trim();
        ClientError::NotOurs {
            url: format!("{}{path}", self.url),
            answered: match line {
                "" => status.to_string(),
                line => format!("{status}: {}", format::visible(line)),
            },
        }
    }
}

fn settings() -> ConfigBuilder<AgentScope> {
    roots::settings().timeout_connect(Some(CONNECT_MAX))
}

/// JSON as bytes. All that is sent has text keys and finite numbers only.
fn written(json: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(json).unwrap_or_default()
}

fn read(answer: &mut Response<Body>, bytes_max: u64) -> Result<String, String> {
    let body = answer.body_mut().with_config().limit(bytes_max);
    body.read_to_string().map_err(|error| message_of(&error))
}

impl ClientError {
    /// A hint on what to do, if there is one.
    pub fn advice(&self) -> Option<&'static str> {
        match self {
            Self::Unreachable { problem, .. } if problem.contains("Connection refused") => {
                Some("is pinbad running? --url or --http says where")
            }
            Self::Unreachable { problem, .. } if problem.contains("UnknownIssuer") => {
                Some("no authority that is trusted has signed it; --ca-file FILE names one more")
            }
            Self::Unreachable { url, problem }
                if url.starts_with("http://") && problem == NO_HTTP =>
            {
                Some("does it use TLS? then --url https://HOST:PORT")
            }
            Self::Unreachable { url, problem }
                if url.starts_with("https://") && problem.contains("InvalidContentType") =>
            {
                Some("does it use TLS? without it --url http://HOST:PORT")
            }
            Self::Refused { status: 401, .. } => Some(
                "give a token with --token-file FILE or PINBAD_TOKEN, or a name and password before the host of the URL: NAME:PASSWORD@HOST:PORT",
            ),
            _ => None,
        }
    }
}

/// The problem of an answer that is not HTTP.
const NO_HTTP: &str = "the answer is not HTTP";

/// The message of a connection error, without the library's prefix.
fn message_of(error: &ureq::Error) -> String {
    let text = error.to_string();
    if text.contains("CaUsedAsEndEntity") {
        return "its certificate is marked as a certificate authority (basicConstraints CA:TRUE), not as that of a server; \
                name this very certificate with --ca-file, or make one that is not: \
                openssl req -x509 -newkey rsa:2048 -nodes -addext basicConstraints=critical,CA:FALSE \
                -addext subjectAltName=DNS:<name> ..."
            .to_owned();
    }
    // A TLS server answers a plain-text request with something that is not HTTP.
    if let ureq::Error::Protocol(_) = error {
        return NO_HTTP.to_owned();
    }
    roots::problem(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_told_from_somebody_elses_answer() {
        let client = Client::at("h:1", &AccessFlags::default()).unwrap();
        let refused = client.refusal("/x", 404, Ok(serde_json::json!({"detail": "no such"})));
        assert_eq!((refused.to_string(), refused.advice()), ("no such".to_owned(), None));
        let refused = client.refusal("/x", 401, Ok(serde_json::json!({"detail": "log in"})));
        assert_has!(refused.advice().unwrap() => "PINBAD_TOKEN");
        let url = "https://h:1".to_owned();
        let problem = "received corrupt message of type InvalidContentType".to_owned();
        let plain = ClientError::Unreachable { url, problem };
        assert_has!(plain.advice().unwrap() => "--url http://HOST:PORT");
        for (body, shown) in cases![
            Ok(serde_json::json!({"error": 1})) => "it answered 404";
            Err("\n".to_owned()) => "it answered 404";
            Err("<html>\u{1b}[2J\nx".to_owned()) => "it answered 404: <html>\\x1b[2J";
        ] {
            let told = client.refusal("/x", 404, body).to_string();
            assert!(told.starts_with("http://h:1/x: this is not pinbad"), "{told}");
            assert!(told.ends_with(shown), "{told}");
        }
    }
}
