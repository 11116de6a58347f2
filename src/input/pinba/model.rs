//! The whole message as prost structs, to encode packets and to verify the decoder.
//!
//! `load` and `demo` build packets from these structs; tests decode with them and compare. Derived,
//! without a build script. Strings are bytes, since clients send arbitrary ones; the singular
//! fields are all optional, so that a missing one differs from a zero. A nested request is a
//! separate type in which deeper requests are opaque bytes: they are not read.

/// Both levels of the message: the same fields except for the type of `requests`.
macro_rules! message {
    ($(#[$doc:meta])* $name:ident { $(#[$nested:meta])* requests: $requests:ty }) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, prost::Message)]
        pub struct $name {
            /// Physical host.
            #[prost(bytes = "vec", optional, tag = "1")]
            pub hostname: Option<Vec<u8>>,
            /// Virtual host.
            #[prost(bytes = "vec", optional, tag = "2")]
            pub server_name: Option<Vec<u8>>,
            /// Script or URI.
            #[prost(bytes = "vec", optional, tag = "3")]
            pub script_name: Option<Vec<u8>>,
            /// Requests this one stands for; PHP sends 0.
            #[prost(uint32, optional, tag = "4")]
            pub request_count: Option<u32>,
            /// Bytes.
            #[prost(uint32, optional, tag = "5")]
            pub document_size: Option<u32>,
            /// Bytes.
            #[prost(uint32, optional, tag = "6")]
            pub memory_peak: Option<u32>,
            /// Seconds.
            #[prost(float, optional, tag = "7")]
            pub request_time: Option<f32>,
            /// Seconds of user CPU.
            #[prost(float, optional, tag = "8")]
            pub ru_utime: Option<f32>,
            /// Seconds of system CPU.
            #[prost(float, optional, tag = "9")]
            pub ru_stime: Option<f32>,
            /// One for each timer.
            #[prost(uint32, repeated, packed = "false", tag = "10")]
            pub timer_hit_count: Vec<u32>,
            /// One for each timer: seconds, all hits together.
            #[prost(float, repeated, packed = "false", tag = "11")]
            pub timer_value: Vec<f32>,
            /// One for each timer: its number of pairs below.
            #[prost(uint32, repeated, packed = "false", tag = "12")]
            pub timer_tag_count: Vec<u32>,
            /// Dictionary indexes, all timers one after the other.
            #[prost(uint32, repeated, packed = "false", tag = "13")]
            pub timer_tag_name: Vec<u32>,
            /// Parallel to `timer_tag_name`.
            #[prost(uint32, repeated, packed = "false", tag = "14")]
            pub timer_tag_value: Vec<u32>,
            /// Texts of timer tags and request tags.
            #[prost(bytes = "vec", repeated, tag = "15")]
            pub dictionary: Vec<Vec<u8>>,
            /// HTTP status.
            #[prost(uint32, optional, tag = "16")]
            pub status: Option<u32>,
            /// Bytes.
            #[prost(uint32, optional, tag = "17")]
            pub memory_footprint: Option<u32>,
            $(#[$nested])*
            pub requests: $requests,
            /// `http`, `https` or anything.
            #[prost(bytes = "vec", optional, tag = "19")]
            pub schema: Option<Vec<u8>>,
            /// Request tags: dictionary indexes.
            #[prost(uint32, repeated, packed = "false", tag = "20")]
            pub tag_name: Vec<u32>,
            /// Parallel to `tag_name`.
            #[prost(uint32, repeated, packed = "false", tag = "21")]
            pub tag_value: Vec<u32>,
            /// One for each timer, or none: seconds of user CPU.
            #[prost(float, repeated, packed = "false", tag = "22")]
            pub timer_ru_utime: Vec<f32>,
            /// One for each timer, or none: seconds of system CPU.
            #[prost(float, repeated, packed = "false", tag = "23")]
            pub timer_ru_stime: Vec<f32>,
        }

        impl $name {
            /// A request with these names and all required fields; the numbers are 0.
            pub fn named(
                hostname: impl Into<Vec<u8>>,
                server_name: impl Into<Vec<u8>>,
                script_name: impl Into<Vec<u8>>,
            ) -> Self {
                Self {
                    hostname: Some(hostname.into()),
                    server_name: Some(server_name.into()),
                    script_name: Some(script_name.into()),
                    request_count: Some(0),
                    document_size: Some(0),
                    memory_peak: Some(0),
                    request_time: Some(0.0),
                    ru_utime: Some(0.0),
                    ru_stime: Some(0.0),
                    ..Self::default()
                }
            }

            /// The dictionary index of `word`, which is added if it is new. Searches linearly, for
            /// packets of ordinary size.
            pub fn word(&mut self, word: impl AsRef<[u8]>) -> u32 {
                let word = word.as_ref();
                let known = self.dictionary.iter().position(|other| other == word);
                let index = known.unwrap_or_else(|| {
                    self.dictionary.push(word.to_vec());
                    self.dictionary.len().saturating_sub(1)
                });
                u32::try_from(index).unwrap_or(u32::MAX)
            }

            /// Adds a request tag.
            pub fn add_tag(&mut self, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
                // PHP adds the value first.
                let value = self.word(value);
                let name = self.word(name);
                self.tag_name.push(name);
                self.tag_value.push(value);
            }

            /// Adds a timer of `hit_count` hits that took `value` seconds in all.
            pub fn add_timer<N: AsRef<[u8]>, V: AsRef<[u8]>>(
                &mut self,
                hit_count: u32,
                value: f32,
                tags: &[(N, V)],
            ) {
                self.timer_hit_count.push(hit_count);
                self.timer_value.push(value);
                self.timer_tag_count.push(u32::try_from(tags.len()).unwrap_or(u32::MAX));
                for (name, value) in tags {
                    let name = self.word(name);
                    let value = self.word(value);
                    self.timer_tag_name.push(name);
                    self.timer_tag_value.push(value);
                }
            }

            /// Adds a timer with its CPU times in seconds. All timers of a request have them, or
            /// none.
            pub fn add_timer_with_rusage<N: AsRef<[u8]>, V: AsRef<[u8]>>(
                &mut self,
                hit_count: u32,
                value: f32,
                (ru_utime, ru_stime): (f32, f32),
                tags: &[(N, V)],
            ) {
                self.add_timer(hit_count, value, tags);
                self.timer_ru_utime.push(ru_utime);
                self.timer_ru_stime.push(ru_stime);
            }

            /// The number of the first missing required field. prost does not check.
            pub fn missing_field(&self) -> Option<u32> {
                let present = [
                    (1, self.hostname.is_some()),
                    (2, self.server_name.is_some()),
                    (3, self.script_name.is_some()),
                    (4, self.request_count.is_some()),
                    (5, self.document_size.is_some()),
                    (6, self.memory_peak.is_some()),
                    (7, self.request_time.is_some()),
                    (8, self.ru_utime.is_some()),
                    (9, self.ru_stime.is_some()),
                ];
                present.into_iter().find(|(_, there)| !there).map(|(number, _)| number)
            }
        }
    };
}

message! {
    /// A packet: the outer request.
    Request {
        /// Requests sent in the same packet, each with a dictionary of its own.
        #[prost(message, repeated, tag = "18")]
        requests: Vec<NestedRequest>
    }
}

message! {
    /// A request inside a packet.
    NestedRequest {
        /// Requests nested deeper, unread.
        #[prost(bytes = "vec", repeated, tag = "18")]
        requests: Vec<Vec<u8>>
    }
}
