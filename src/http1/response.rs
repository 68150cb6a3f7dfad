//! Scans one response at a time out of any pieces of it.
