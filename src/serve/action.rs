//! What is done for a request.

use super::answer::{Answer, Content};
use super::paths::Path;
use super::request::{Head, Keep};
use crate::clock::Nanos;
use crate::ring::BytesId;

/// An answer that the ring holds, ready to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// Its bytes.
    pub bytes: BytesId,
    /// How many.
    pub len: u32,
    /// What becomes of the connection.
    pub after: After,
}

/// What becomes of a connection after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// It is kept.
    Keep,
    /// It is closed.
    Close,
    /// It is closed in the middle of a body: over TLS without close_notify.
    Cut,
    /// The sending side is closed, and what the client still sends is thrown away for a while: to
    /// close at once would send RST, and the client would lose the answer.
    Linger,
}

impl After {
    /// After this answer.
    #[must_use]
    pub fn answer(answer: &Answer) -> Self {
        match answer.content {
            Content::Truncated(_) => Self::Cut,
            _ => Self::saying(answer.keep),
        }
    }

    /// After an answer that said this.
    #[must_use]
    pub fn saying(keep: Keep) -> Self {
        match keep {
            Keep::Implied | Keep::Said => Self::Keep,
            Keep::Close => Self::Close,
        }
    }
}

/// What is done for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// An answer at once.
    Answer(Ready),
    /// The answer after a time between both, nanoseconds.
    Delay(Nanos, Nanos, Ready),
    /// The answer after so much CPU time of the thread, nanoseconds.
    Cpu(Nanos, Ready),
    /// An answer too large to be held: its head and then its body in parts.
    Stream(Answer),
    /// An answer spread over this time, nanoseconds.
    Slow(Answer, Nanos),
    /// No answer.
    Never,
    /// RST.
    Reset,
    /// The statistics, or with `reset` their reset.
    Stats {
        /// `/stats/reset`
        reset: bool,
        /// The method is `HEAD`.
        head_only: bool,
        /// Whether the connection is kept.
        keep: Keep,
    },
}

/// Where answers are held.
pub trait Hold {
    /// Whether an answer of this size can be held.
    fn has_room(&self, answer: &Answer) -> bool;
    /// Holds an answer.
    fn hold(&mut self, answer: Answer) -> Ready;
}

impl Action {
    /// What a head asks for.
    pub fn of(head: &Head<'_>, held: &mut impl Hold) -> Self {
        let Head { head_only, keep, .. } = *head;
        let answer = |content| Answer { content, head_only, keep };
        match Path::of(head.target) {
            Path::Root => Self::Answer(held.hold(answer(Content::Ok))),
            Path::Bytes(n) => Self::sized(answer(Content::Bytes(n)), held),
            Path::Chunked(n) => Self::sized(answer(Content::Chunked(n)), held),
            Path::Truncate(n) => {
                Self::sized(Answer { keep: Keep::Close, ..answer(Content::Truncated(n)) }, held)
            }
            Path::Status(code) => Self::Answer(held.hold(answer(Content::Status(code)))),
            Path::Unknown => Self::Answer(held.hold(answer(Content::Status(404)))),
            Path::Close => {
                let ready = held.hold(Answer { keep: Keep::Close, ..answer(Content::Ok) });
                // A client that did not ask for it may have sent more.
                let linger = keep != Keep::Close;
                Self::Answer(Ready {
                    after: if linger { After::Linger } else { ready.after },
                    ..ready
                })
            }
            Path::Delay(from, to) => Self::Delay(from, to, held.hold(answer(Content::Ok))),
            Path::Cpu(time) => Self::Cpu(time, held.hold(answer(Content::Ok))),
            Path::Slow(n, _) if n == 0 || head_only => Self::sized(answer(Content::Bytes(n)), held),
            Path::Slow(n, time) => Self::Slow(answer(Content::Bytes(n)), time),
            Path::Never => Self::Never,
            Path::Reset => Self::Reset,
            Path::Stats => Self::Stats { reset: false, head_only, keep },
            Path::StatsReset => Self::Stats { reset: true, head_only, keep },
        }
    }

    /// An answer of any size.
    fn sized(answer: Answer, held: &mut impl Hold) -> Self {
        if held.has_room(&answer) { Self::Answer(held.hold(answer)) } else { Self::Stream(answer) }
    }

    /// Whether the request counts in the statistics.
    #[must_use]
    pub fn is_counted(&self) -> bool {
        !matches!(self, Self::Stats { .. })
    }
}
