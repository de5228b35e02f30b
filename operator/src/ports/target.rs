//! What a pass is about: one object, and the controller that looks at it.

use std::fmt;

use super::object::ObjectKey;

/// Which of the three controllers a piece of work is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Controller {
    /// EtcdCluster.
    Cluster,
    /// EtcdBackup.
    Backup,
    /// EtcdRestore.
    Restore,
}

impl Controller {
    /// All three.
    pub const ALL: [Self; 3] = [Self::Cluster, Self::Backup, Self::Restore];

    /// The name of its lock, which is that of the archived operator's binary.
    pub const fn lock_name(self) -> &'static str {
        match self {
            Self::Cluster => "etcd-operator",
            Self::Backup => "etcd-backup-operator",
            Self::Restore => "etcd-restore-operator",
        }
    }
}

/// One object and the controller that shall look at it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Target {
    /// Which controller.
    pub controller: Controller,
    /// Which object.
    pub key: ObjectKey,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}", self.controller, self.key)
    }
}
