//! Encodes a request once.
