//! Figures (tcp protocol section 23).

/// The form of a reply of this family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Monitor {
    /// `Stats`
    Stats,
    /// `Metrics` over all queues
    Metrics,
    /// `Metrics` of one queue
    QueueMetrics,
    /// `TrimEvents`
    Trimmed,
    /// `Prometheus`
    Exposition,
    /// `StorageStatus`
    Storage,
    /// `DashboardOverview`
    Overview,
    /// `DashboardQueues`
    Queues,
    /// `DashboardQueue`
    Queue,
}
