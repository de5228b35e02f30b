//! The closed sets of reasons, one enum for each condition type.

reasons! {
    /// Reasons of `Ready` of an EtcdCluster.
    ReadyReason {
        /// As many members as wanted, all as wanted, all healthy.
        AllMembersReady,
        /// The first formation is not complete.
        NotFormed,
        /// Some member is missing or does not serve.
        MembersNotReady,
        /// All serve; something is still being changed.
        ChangeInProgress,
        /// Too few voters are left to serve.
        QuorumLost,
        /// etcd has raised an alarm and refuses writes.
        AlarmRaised,
        /// It cannot go on without a person; `Stalled` says why.
        Stalled,
        /// The spec says to leave it alone.
        Paused,
        /// It is being deleted.
        Deleting,
        /// What is needed to tell could not be read.
        Unobserved,
    }
}

reasons! {
    /// Reasons of `Available`.
    AvailableReason {
        /// A quorum of voters serves.
        QuorumServes,
        /// The first formation is not complete.
        NotFormed,
        /// Too few voters are left to serve.
        QuorumLost,
        /// No member could be asked.
        Unobserved,
    }
}

reasons! {
    /// Reasons of `Progressing` and `Reconciling` of an EtcdCluster.
    ProgressingReason {
        /// Nothing is left to do.
        AsWanted,
        /// The first formation is under way.
        Forming,
        /// A lineage from a snapshot is being put in place of the old one.
        Restoring,
        /// Pods of existing members are being brought back.
        Recovering,
        /// A lost member is being replaced.
        ReplacingMember,
        /// A learner is catching up or being promoted.
        PromotingLearner,
        /// Leadership is being moved.
        MovingLeader,
        /// Members are being added.
        ScalingOut,
        /// Members are being removed.
        ScalingIn,
        /// Pods are being changed one at a time.
        RollingOut,
        /// The version is being changed one member at a time.
        Upgrading,
        /// A member cannot start after it was changed; the others are left as they were.
        RollOutStopped,
        /// Kubernetes refuses a step; the message has its words.
        StepRefused,
        /// What is no longer wanted is being removed.
        CleaningUp,
        /// There is work that must wait; the message says for what.
        Waiting,
        /// There is work that would not be safe now; the message says why.
        Unsafe,
        /// It is being deleted.
        Deleting,
        /// The spec says to leave it alone.
        Paused,
        /// It cannot go on without a person; `Stalled` says why.
        Stalled,
    }
}

reasons! {
    /// Reasons of `Stalled` of an EtcdCluster.
    StalledReason {
        /// It can go on by itself.
        NotStalled,
        /// The spec asks for something that cannot be; the message names the field and what is allowed.
        InvalidSpec,
        /// The wanted version cannot be reached from the current one.
        VersionRefused,
        /// Too few voters are left, and their data is not known to come back.
        QuorumLost,
        /// The cluster was formed once and no data of it is left.
        DataLost,
        /// Members' data differs, and etcd could not tell whose is wrong.
        DataCorrupt,
        /// A member could not start after it was changed, for as long as one may be away; the others were left as they
        /// were.
        RollOutStopped,
        /// An object of this name belongs to someone else.
        OwnershipConflict,
        /// The archived operator is alive beside this one.
        LegacyOperatorAlive,
        /// Volumes or pods of this cluster exist that its status does not know.
        StatusLost,
    }
}

reasons! {
    /// Reasons of `Degraded`.
    DegradedReason {
        /// All members serve.
        FullStrength,
        /// The first formation is not complete.
        NotFormed,
        /// There are fewer members than wanted.
        MembersMissing,
        /// Some member does not serve.
        MembersUnhealthy,
        /// Too few voters are left to serve.
        QuorumLost,
        /// No member could be asked.
        Unobserved,
    }
}

reasons! {
    /// Reasons of `Paused`.
    PausedReason {
        /// The operator looks after the cluster.
        NotPaused,
        /// The spec says to leave it alone.
        PausedBySpec,
    }
}

reasons! {
    /// Reasons of `Upgrading`.
    UpgradingReason {
        /// All members run the wanted version.
        NotUpgrading,
        /// Members are being changed one at a time.
        MemberByMember,
        /// The next member must wait; the message says for what.
        Waiting,
        /// A member cannot start after it was changed; the message has Kubernetes' words.
        Stopped,
        /// The wanted version cannot be reached from the current one.
        Refused,
    }
}

reasons! {
    /// Reasons of `MembersHealthy`.
    MembersHealthyReason {
        /// Every member answers and is well.
        AllHealthy,
        /// The first formation is not complete.
        NotFormed,
        /// A member does not answer.
        MemberUnreachable,
        /// A pod of a member is missing, pending or not ready.
        MemberNotReady,
        /// The members have no leader.
        NoLeader,
        /// A member has the alarm CORRUPT.
        MemberCorrupt,
        /// A member belongs to another cluster id.
        MemberForeign,
        /// No member could be asked.
        Unobserved,
    }
}

reasons! {
    /// Reasons of `QuorumAtRisk`.
    QuorumAtRiskReason {
        /// At least one more member may fail.
        FailureTolerated,
        /// One more failure would stop the cluster.
        NoFailureTolerated,
        /// A cluster of this size never tolerates a failure.
        SizeToleratesNone,
        /// The first formation is not complete.
        NotFormed,
        /// Too few voters are left to serve.
        QuorumLost,
        /// No member could be asked.
        Unobserved,
    }
}

reasons! {
    /// Reasons of `StorageHealthy`.
    StorageHealthyReason {
        /// Every member has its volume.
        VolumesBound,
        /// Members keep their data in their pods.
        EmptyDir,
        /// A volume is not bound yet.
        VolumePending,
        /// A volume of a member is gone, lost or empty.
        VolumeLost,
        /// A claim was deleted under a member: its data goes when its pod does.
        VolumeTerminating,
        /// A member has the alarm NOSPACE.
        NoSpace,
        /// Volumes could not be read.
        Unobserved,
    }
}

reasons! {
    /// Reasons of `CertificatesValid`.
    CertificatesValidReason {
        /// The spec asks for no TLS.
        NotUsed,
        /// A Secret is not there.
        SecretMissing,
        /// A Secret lacks a key.
        SecretIncomplete,
        /// What a Secret has for a certificate is none.
        Malformed,
        /// A certificate has ended.
        Expired,
        /// A certificate has not begun.
        NotYetValid,
        /// Less than a tenth of a certificate's life is left.
        ExpiresSoon,
        /// All are in date. Whether they are trusted shows when members and clients meet.
        InDate,
        /// Secrets could not be read.
        Unobserved,
    }
}

reasons! {
    /// Reasons of `BackupHealthy`.
    BackupHealthyReason {
        /// No EtcdBackup names this cluster in `spec.etcdEndpoints`, by its client Service or a member.
        NoBackup,
        /// None of them has come to an end yet.
        NotYet,
        /// The last attempt of one of them failed.
        BackupFailed,
        /// A periodic one has let a whole interval go by without a good backup.
        BackupOverdue,
        /// The last backup of each is complete in the store.
        BackedUp,
    }
}

reasons! {
    /// Reasons of `LegacyConflict`.
    LegacyConflictReason {
        /// No lock of the archived operator is fresh.
        NoConflict,
        /// A lock of the archived operator is fresh.
        LegacyOperatorAlive,
    }
}

reasons! {
    /// Reasons of `SpecWarnings`: that of the first warning, whose words the message has with all others.
    SpecWarningsReason {
        /// Nothing in the spec deserves a word.
        NoWarnings,
        /// An even number of members tolerates no more failures than one less.
        EvenSize,
        /// The version is the archived operator's default, which nobody maintains.
        VersionUnmaintained,
        /// A field that another one has taken the place of.
        DeprecatedField,
        /// A field that has no effect beside something else.
        FieldWithoutEffect,
        /// The spec cannot be used; `Stalled` says why.
        InvalidSpec,
    }
}

reasons! {
    /// Reasons of `Ready` of an EtcdBackup.
    BackupReadyReason {
        /// The backup is complete in the store.
        Succeeded,
        /// The last backup is complete in the store and the next one has its time.
        Scheduled,
        /// A backup is being taken.
        Running,
        /// Something that it needs is missing.
        Waiting,
        /// The last attempt failed; `BackupSucceeded` says why.
        Failed,
        /// The one-shot backup was taken of other `etcdEndpoints` than the spec names now.
        SpecChanged,
        /// The one-shot backup was taken, and is no longer in the store.
        Gone,
    }
}

reasons! {
    /// Reasons of `BackupSucceeded`.
    BackupSucceededReason {
        /// The store confirmed the object, its size and checksum.
        Confirmed,
        /// No attempt has ended yet.
        NotYet,
        /// The spec asks for something that cannot be; the message names the field and what is allowed.
        InvalidSpec,
        /// A Secret is not there.
        SecretMissing,
        /// A Secret lacks a key or holds what is not understood.
        SecretInvalid,
        /// The store refused the credentials.
        CredentialsRefused,
        /// The bucket or container is not there.
        BucketMissing,
        /// The store does not answer.
        StoreUnreachable,
        /// The store answered with an error.
        StoreFailed,
        /// No endpoint could be used.
        NoEndpoint,
        /// The snapshot broke off.
        SnapshotFailed,
        /// The snapshot does not carry its own checksum.
        SnapshotCorrupt,
        /// The store does not have the object as it was sent.
        NotConfirmed,
        /// It took longer than `timeoutInSecond`.
        TimedOut,
        /// The operator stopped while it ran.
        Interrupted,
        /// It failed under the archived operator, which tried once. A change of the spec starts it anew.
        FailedBefore,
    }
}

reasons! {
    /// Reasons of `Reconciling` of an EtcdBackup.
    BackupReconcilingReason {
        /// Nothing is left to do now.
        AsWanted,
        /// A backup is being taken.
        Running,
        /// Backups above `maxBackups` are being removed.
        RemovingOldBackups,
        /// Something that it needs is missing.
        Waiting,
        /// An EtcdRestore reads what is at its path.
        WaitingForRestore,
        /// The last attempt failed; the next one has its time.
        RetryScheduled,
    }
}

reasons! {
    /// Reasons of `Stalled` of an EtcdBackup.
    BackupStalledReason {
        /// It can go on by itself.
        NotStalled,
        /// The one-shot backup was taken of other `etcdEndpoints` than the spec names now: that takes another EtcdBackup.
        SpecChanged,
        /// The spec asks for something that cannot be; the message names the field and what is allowed.
        InvalidSpec,
        /// The archived operator is alive beside this one.
        LegacyOperatorAlive,
        /// It failed under the archived operator, which tried once. A change of the spec starts it anew.
        FailedBefore,
    }
}

reasons! {
    /// Reasons of `Ready` of an EtcdRestore.
    RestoreReadyReason {
        /// The cluster serves the data of the backup.
        Succeeded,
        /// The restore is under way.
        InProgress,
        /// Something that it needs is missing.
        Waiting,
        /// It was given up; `RestoreSucceeded` says why.
        Failed,
    }
}

reasons! {
    /// Reasons of `RestoreSucceeded`.
    RestoreSucceededReason {
        /// The new lineage had quorum and its data was read back.
        Confirmed,
        /// It has not ended yet.
        NotYet,
        /// The spec asks for something that cannot be; the message names the field and what is allowed.
        InvalidSpec,
        /// A Secret is not there.
        SecretMissing,
        /// A Secret lacks a key or holds what is not understood.
        SecretInvalid,
        /// The store refused the credentials.
        CredentialsRefused,
        /// The bucket or container is not there.
        BucketMissing,
        /// The store does not answer.
        StoreUnreachable,
        /// The store answered with an error.
        StoreFailed,
        /// The EtcdCluster is not there.
        ClusterMissing,
        /// The object is not there.
        SnapshotMissing,
        /// The object ends too early.
        SnapshotTruncated,
        /// The object does not carry its own checksum.
        SnapshotCorrupt,
        /// The object is no etcd snapshot.
        SnapshotForeign,
        /// It failed under the archived operator, which tried once. A change of the spec starts it anew.
        FailedBefore,
    }
}

reasons! {
    /// Reasons of `Reconciling` of an EtcdRestore.
    RestoreReconcilingReason {
        /// Nothing is left to do.
        AsWanted,
        /// The snapshot is being read and checked.
        Verifying,
        /// Members are being started from the snapshot.
        StartingLineage,
        /// The new lineage is being put in place of the old one.
        Switching,
        /// Something that it needs is missing.
        Waiting,
    }
}

reasons! {
    /// Reasons of `Stalled` of an EtcdRestore.
    RestoreStalledReason {
        /// It can go on by itself.
        NotStalled,
        /// The spec asks for something that cannot be; the message names the field and what is allowed.
        InvalidSpec,
        /// The object cannot be restored from.
        SnapshotUnusable,
        /// The archived operator is alive beside this one.
        LegacyOperatorAlive,
        /// It failed under the archived operator, which tried once. A change of the spec starts it anew.
        FailedBefore,
    }
}
