//! Responses to bodies, encoded like the body: partial success, or the reason for a refusal.

use prost::Message;
use serde_json::json;

use super::messages::{PartialSuccess, Response, Status};
use super::{Accepted, Form};

/// Encodes the response to an accepted body.
#[must_use]
pub fn success(form: Form, accepted: &Accepted) -> Vec<u8> {
    let Accepted { rejected, message } = accepted;
    match (form, rejected) {
        (Form::Protobuf, 0) => Vec::new(),
        (Form::Json, 0) => b"{}".to_vec(),
        (Form::Protobuf, rejected) => {
            let partial_success = PartialSuccess {
                rejected: i64::try_from(*rejected).unwrap_or(i64::MAX),
                error_message: message.clone(),
            };
            let partial_success = Some(partial_success);
            Response { partial_success }.encode_to_vec()
        }
        (Form::Json, rejected) => {
            let partial = json!({"rejectedSpans": rejected.to_string(), "errorMessage": message});
            json!({ "partialSuccess": partial }).to_string().into_bytes()
        }
    }
}

/// Encodes the response to a refused body, with a gRPC status code.
#[must_use]
pub fn refusal(form: Form, code: i32, message: &str) -> Vec<u8> {
    match form {
        Form::Protobuf => {
            let message = message.to_owned();
            Status { code, message }.encode_to_vec()
        }
        Form::Json => json!({"code": code, "message": message}).to_string().into_bytes(),
    }
}
