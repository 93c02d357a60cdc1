//! Kafka's error codes by name (section 12 of the reference, class `Errors`).

macro_rules! errors {
    ($($variant:ident = $code:literal, $name:literal, $kind:ident;)*) => {
        /// What a response carries as `error_code`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(i16)]
        pub enum ErrorCode { $($variant = $code,)* }

        impl ErrorCode {
            pub const ALL: &[ErrorCode] = &[$(ErrorCode::$variant,)*];

            pub fn name(self) -> &'static str {
                match self { $(ErrorCode::$variant => $name,)* }
            }

            fn kind(self) -> Kind {
                match self { $(ErrorCode::$variant => Kind::$kind,)* }
            }
        }
    };
}

/// What a client may do about an error.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Final,
    /// RetriableException.
    Retriable,
    /// Retriable, and the client's metadata is out of date (InvalidMetadataException).
    RefreshMetadata,
    /// Retriable at another coordinator.
    RediscoverCoordinator,
}

errors! {
    UnknownServerError = -1, "UNKNOWN_SERVER_ERROR", Final;
    None = 0, "NONE", Final;
    OffsetOutOfRange = 1, "OFFSET_OUT_OF_RANGE", Final;
    CorruptMessage = 2, "CORRUPT_MESSAGE", Retriable;
    UnknownTopicOrPartition = 3, "UNKNOWN_TOPIC_OR_PARTITION", RefreshMetadata;
    InvalidFetchSize = 4, "INVALID_FETCH_SIZE", Final;
    LeaderNotAvailable = 5, "LEADER_NOT_AVAILABLE", RefreshMetadata;
    NotLeaderOrFollower = 6, "NOT_LEADER_OR_FOLLOWER", RefreshMetadata;
    RequestTimedOut = 7, "REQUEST_TIMED_OUT", Retriable;
    BrokerNotAvailable = 8, "BROKER_NOT_AVAILABLE", Final;
    ReplicaNotAvailable = 9, "REPLICA_NOT_AVAILABLE", RefreshMetadata;
    MessageTooLarge = 10, "MESSAGE_TOO_LARGE", Final;
    StaleControllerEpoch = 11, "STALE_CONTROLLER_EPOCH", Final;
    OffsetMetadataTooLarge = 12, "OFFSET_METADATA_TOO_LARGE", Final;
    NetworkException = 13, "NETWORK_EXCEPTION", RefreshMetadata;
    CoordinatorLoadInProgress = 14, "COORDINATOR_LOAD_IN_PROGRESS", Retriable;
    CoordinatorNotAvailable = 15, "COORDINATOR_NOT_AVAILABLE", RediscoverCoordinator;
    NotCoordinator = 16, "NOT_COORDINATOR", RediscoverCoordinator;
    InvalidTopicException = 17, "INVALID_TOPIC_EXCEPTION", Final;
    RecordListTooLarge = 18, "RECORD_LIST_TOO_LARGE", Final;
    NotEnoughReplicas = 19, "NOT_ENOUGH_REPLICAS", Retriable;
    NotEnoughReplicasAfterAppend = 20, "NOT_ENOUGH_REPLICAS_AFTER_APPEND", Retriable;
    InvalidRequiredAcks = 21, "INVALID_REQUIRED_ACKS", Final;
    IllegalGeneration = 22, "ILLEGAL_GENERATION", Final;
    InconsistentGroupProtocol = 23, "INCONSISTENT_GROUP_PROTOCOL", Final;
    InvalidGroupId = 24, "INVALID_GROUP_ID", Final;
    UnknownMemberId = 25, "UNKNOWN_MEMBER_ID", Final;
    InvalidSessionTimeout = 26, "INVALID_SESSION_TIMEOUT", Final;
    RebalanceInProgress = 27, "REBALANCE_IN_PROGRESS", Final;
    InvalidCommitOffsetSize = 28, "INVALID_COMMIT_OFFSET_SIZE", Final;
    TopicAuthorizationFailed = 29, "TOPIC_AUTHORIZATION_FAILED", Final;
    GroupAuthorizationFailed = 30, "GROUP_AUTHORIZATION_FAILED", Final;
    ClusterAuthorizationFailed = 31, "CLUSTER_AUTHORIZATION_FAILED", Final;
    InvalidTimestamp = 32, "INVALID_TIMESTAMP", Final;
    UnsupportedVersion = 35, "UNSUPPORTED_VERSION", Final;
    TopicAlreadyExists = 36, "TOPIC_ALREADY_EXISTS", Final;
    InvalidPartitions = 37, "INVALID_PARTITIONS", Final;
    InvalidReplicationFactor = 38, "INVALID_REPLICATION_FACTOR", Final;
    InvalidReplicaAssignment = 39, "INVALID_REPLICA_ASSIGNMENT", Final;
    InvalidConfig = 40, "INVALID_CONFIG", Final;
    NotController = 41, "NOT_CONTROLLER", Retriable;
    InvalidRequest = 42, "INVALID_REQUEST", Final;
    UnsupportedForMessageFormat = 43, "UNSUPPORTED_FOR_MESSAGE_FORMAT", Final;
    PolicyViolation = 44, "POLICY_VIOLATION", Final;
    OutOfOrderSequenceNumber = 45, "OUT_OF_ORDER_SEQUENCE_NUMBER", Final;
    DuplicateSequenceNumber = 46, "DUPLICATE_SEQUENCE_NUMBER", Final;
    InvalidProducerEpoch = 47, "INVALID_PRODUCER_EPOCH", Final;
    InvalidTxnState = 48, "INVALID_TXN_STATE", Final;
    InvalidProducerIdMapping = 49, "INVALID_PRODUCER_ID_MAPPING", Final;
    InvalidTransactionTimeout = 50, "INVALID_TRANSACTION_TIMEOUT", Final;
    ConcurrentTransactions = 51, "CONCURRENT_TRANSACTIONS", Retriable;
    TransactionCoordinatorFenced = 52, "TRANSACTION_COORDINATOR_FENCED", Final;
    TransactionalIdAuthorizationFailed = 53, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", Final;
    OperationNotAttempted = 55, "OPERATION_NOT_ATTEMPTED", Final;
    KafkaStorageError = 56, "KAFKA_STORAGE_ERROR", RefreshMetadata;
    UnknownProducerId = 59, "UNKNOWN_PRODUCER_ID", Final;
    ReassignmentInProgress = 60, "REASSIGNMENT_IN_PROGRESS", Final;
    NonEmptyGroup = 68, "NON_EMPTY_GROUP", Final;
    GroupIdNotFound = 69, "GROUP_ID_NOT_FOUND", Final;
    FetchSessionIdNotFound = 70, "FETCH_SESSION_ID_NOT_FOUND", Retriable;
    InvalidFetchSessionEpoch = 71, "INVALID_FETCH_SESSION_EPOCH", Retriable;
    ListenerNotFound = 72, "LISTENER_NOT_FOUND", RefreshMetadata;
    TopicDeletionDisabled = 73, "TOPIC_DELETION_DISABLED", Final;
    FencedLeaderEpoch = 74, "FENCED_LEADER_EPOCH", RefreshMetadata;
    UnknownLeaderEpoch = 75, "UNKNOWN_LEADER_EPOCH", Retriable;
    UnsupportedCompressionType = 76, "UNSUPPORTED_COMPRESSION_TYPE", Final;
    StaleBrokerEpoch = 77, "STALE_BROKER_EPOCH", Final;
    OffsetNotAvailable = 78, "OFFSET_NOT_AVAILABLE", Retriable;
    MemberIdRequired = 79, "MEMBER_ID_REQUIRED", Final;
    PreferredLeaderNotAvailable = 80, "PREFERRED_LEADER_NOT_AVAILABLE", RefreshMetadata;
    GroupMaxSizeReached = 81, "GROUP_MAX_SIZE_REACHED", Final;
    FencedInstanceId = 82, "FENCED_INSTANCE_ID", Final;
    EligibleLeadersNotAvailable = 83, "ELIGIBLE_LEADERS_NOT_AVAILABLE", RefreshMetadata;
    ElectionNotNeeded = 84, "ELECTION_NOT_NEEDED", RefreshMetadata;
    NoReassignmentInProgress = 85, "NO_REASSIGNMENT_IN_PROGRESS", Final;
    GroupSubscribedToTopic = 86, "GROUP_SUBSCRIBED_TO_TOPIC", Final;
    InvalidRecord = 87, "INVALID_RECORD", Final;
    UnstableOffsetCommit = 88, "UNSTABLE_OFFSET_COMMIT", Retriable;
    ThrottlingQuotaExceeded = 89, "THROTTLING_QUOTA_EXCEEDED", Retriable;
    ProducerFenced = 90, "PRODUCER_FENCED", Final;
    InvalidUpdateVersion = 95, "INVALID_UPDATE_VERSION", Final;
    SnapshotNotFound = 98, "SNAPSHOT_NOT_FOUND", Final;
    PositionOutOfRange = 99, "POSITION_OUT_OF_RANGE", Final;
    UnknownTopicId = 100, "UNKNOWN_TOPIC_ID", RefreshMetadata;
    DuplicateBrokerRegistration = 101, "DUPLICATE_BROKER_REGISTRATION", Final;
    BrokerIdNotRegistered = 102, "BROKER_ID_NOT_REGISTERED", Final;
    InconsistentTopicId = 103, "INCONSISTENT_TOPIC_ID", RefreshMetadata;
    TransactionalIdNotFound = 105, "TRANSACTIONAL_ID_NOT_FOUND", Final;
    IneligibleReplica = 107, "INELIGIBLE_REPLICA", Final;
    NewLeaderElected = 108, "NEW_LEADER_ELECTED", Final;
    OffsetMovedToTieredStorage = 109, "OFFSET_MOVED_TO_TIERED_STORAGE", Final;
    FencedMemberEpoch = 110, "FENCED_MEMBER_EPOCH", Final;
    UnreleasedInstanceId = 111, "UNRELEASED_INSTANCE_ID", Final;
    UnsupportedAssignor = 112, "UNSUPPORTED_ASSIGNOR", Final;
    StaleMemberEpoch = 113, "STALE_MEMBER_EPOCH", Final;
    TransactionAbortable = 120, "TRANSACTION_ABORTABLE", Final;
    InvalidRecordState = 121, "INVALID_RECORD_STATE", Final;
    ShareSessionNotFound = 122, "SHARE_SESSION_NOT_FOUND", Retriable;
    InvalidShareSessionEpoch = 123, "INVALID_SHARE_SESSION_EPOCH", Retriable;
    FencedStateEpoch = 124, "FENCED_STATE_EPOCH", Final;
    InvalidRegularExpression = 128, "INVALID_REGULAR_EXPRESSION", Final;
    RebootstrapRequired = 129, "REBOOTSTRAP_REQUIRED", Final;
    ShareSessionLimitReached = 133, "SHARE_SESSION_LIMIT_REACHED", Retriable;
}

impl ErrorCode {
    pub fn code(self) -> i16 {
        self as i16
    }

    /// The error of a code; one that Kafka 4.3 does not know reads as UNKNOWN_SERVER_ERROR.
    pub fn from_code(code: i16) -> ErrorCode {
        let known = ErrorCode::ALL.iter().copied().find(|e| e.code() == code);
        known.unwrap_or(ErrorCode::UnknownServerError)
    }

    pub fn is_ok(self) -> bool {
        self == ErrorCode::None
    }

    pub fn is_retriable(self) -> bool {
        self.kind() != Kind::Final
    }

    /// The client asks for metadata again before it retries.
    pub fn refreshes_metadata(self) -> bool {
        self.kind() == Kind::RefreshMetadata
    }

    /// The client looks for its coordinator again before it retries.
    pub fn rediscovers_coordinator(self) -> bool {
        self.kind() == Kind::RediscoverCoordinator
    }
}

impl std::fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_reads_back_as_itself() {
        for &error in ErrorCode::ALL {
            assert_eq!(ErrorCode::from_code(error.code()), error);
        }
    }

    /// R-PROD-20.
    #[test]
    fn not_leader_refreshes_metadata_and_not_coordinator_rediscovers() {
        assert!(ErrorCode::NotLeaderOrFollower.refreshes_metadata());
        assert!(ErrorCode::NotCoordinator.rediscovers_coordinator());
        assert!(!ErrorCode::IllegalGeneration.is_retriable());
    }
}
