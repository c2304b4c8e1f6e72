"""The methods of the three services as typed values, for both faces of the client."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from rowlock_proto.v1 import catalog_pb2 as catalog
from rowlock_proto.v1 import region_pb2 as region
from rowlock_proto.v1 import sessions_pb2 as sessions

Q = TypeVar("Q")
A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class Method(Generic[Q, A]):
    """One method: its path, and the functions that serialize a request and parse an answer."""

    path: str
    serialize: Callable[[Q], bytes]
    parse: Callable[[bytes], A]


# A call's metadata, and the key under which it names the data folder that its server must have.
Metadata = tuple[tuple[str, str], ...]
_FOLDER_ID_KEY = "rowlock-data-folder-id"


def folder_metadata(folder_id: str) -> Metadata:
    """Returns the metadata of a call for the server of this data folder; empty: of any folder."""
    return ((_FOLDER_ID_KEY, folder_id),) if folder_id else ()


_CATALOG = "/rowlock.v1.Catalog/"
REGION = "/rowlock.v1.RegionService/"
_SESSIONS = "/rowlock.v1.Sessions/"

CREATE_TABLE = Method(
    _CATALOG + "CreateTable", catalog.CreateTableRequest.SerializeToString, catalog.CreateTableResponse.FromString
)
ALTER_TABLE = Method(
    _CATALOG + "AlterTable", catalog.AlterTableRequest.SerializeToString, catalog.AlterTableResponse.FromString
)
DROP_TABLE = Method(
    _CATALOG + "DropTable", catalog.DropTableRequest.SerializeToString, catalog.DropTableResponse.FromString
)
TRUNCATE_TABLE = Method(
    _CATALOG + "TruncateTable", catalog.TruncateTableRequest.SerializeToString, catalog.TruncateTableResponse.FromString
)
DESCRIBE_TABLE = Method(
    _CATALOG + "DescribeTable", catalog.DescribeTableRequest.SerializeToString, catalog.DescribeTableResponse.FromString
)
LIST_TABLES = Method(
    _CATALOG + "ListTables", catalog.ListTablesRequest.SerializeToString, catalog.ListTablesResponse.FromString
)
LOCATE_REGIONS = Method(
    _CATALOG + "LocateRegions", catalog.LocateRegionsRequest.SerializeToString, catalog.LocateRegionsResponse.FromString
)
LIST_REGIONS = Method(
    _CATALOG + "ListRegions", catalog.ListRegionsRequest.SerializeToString, catalog.ListRegionsResponse.FromString
)
SPLIT_REGION = Method(
    _CATALOG + "SplitRegion", catalog.SplitRegionRequest.SerializeToString, catalog.SplitRegionResponse.FromString
)
MERGE_REGIONS = Method(
    _CATALOG + "MergeRegions", catalog.MergeRegionsRequest.SerializeToString, catalog.MergeRegionsResponse.FromString
)
CREATE_NAMED_SNAPSHOT = Method(
    _CATALOG + "CreateNamedSnapshot",
    catalog.CreateNamedSnapshotRequest.SerializeToString,
    catalog.CreateNamedSnapshotResponse.FromString,
)
LIST_NAMED_SNAPSHOTS = Method(
    _CATALOG + "ListNamedSnapshots",
    catalog.ListNamedSnapshotsRequest.SerializeToString,
    catalog.ListNamedSnapshotsResponse.FromString,
)
RESTORE_NAMED_SNAPSHOT = Method(
    _CATALOG + "RestoreNamedSnapshot",
    catalog.RestoreNamedSnapshotRequest.SerializeToString,
    catalog.RestoreNamedSnapshotResponse.FromString,
)
DROP_NAMED_SNAPSHOT = Method(
    _CATALOG + "DropNamedSnapshot",
    catalog.DropNamedSnapshotRequest.SerializeToString,
    catalog.DropNamedSnapshotResponse.FromString,
)
MAKE_SNAPSHOT = Method(
    _CATALOG + "MakeSnapshot", catalog.MakeSnapshotRequest.SerializeToString, catalog.MakeSnapshotResponse.FromString
)
RENEW_SNAPSHOT = Method(
    _CATALOG + "RenewSnapshot", catalog.RenewSnapshotRequest.SerializeToString, catalog.RenewSnapshotResponse.FromString
)
END_SNAPSHOT = Method(
    _CATALOG + "EndSnapshot", catalog.EndSnapshotRequest.SerializeToString, catalog.EndSnapshotResponse.FromString
)
COMPACT = Method(_CATALOG + "Compact", catalog.CompactRequest.SerializeToString, catalog.CompactResponse.FromString)
LIST_COMPACTIONS = Method(
    _CATALOG + "ListCompactions",
    catalog.ListCompactionsRequest.SerializeToString,
    catalog.ListCompactionsResponse.FromString,
)
CANCEL_COMPACTIONS = Method(
    _CATALOG + "CancelCompactions",
    catalog.CancelCompactionsRequest.SerializeToString,
    catalog.CancelCompactionsResponse.FromString,
)
SERVER_INFO = Method(
    _CATALOG + "ServerInfo", catalog.ServerInfoRequest.SerializeToString, catalog.ServerInfoResponse.FromString
)
SERVER_STATUS = Method(
    _CATALOG + "ServerStatus", catalog.ServerStatusRequest.SerializeToString, catalog.ServerStatusResponse.FromString
)
FLUSH = Method(REGION + "Flush", region.FlushRequest.SerializeToString, region.FlushResponse.FromString)
PLAN_SCAN = Method(REGION + "PlanScan", region.PlanScanRequest.SerializeToString, region.PlanScanResponse.FromString)
READ_CHANGES = Method(
    REGION + "ReadChanges", region.ReadChangesRequest.SerializeToString, region.ReadChangesResponse.FromString
)
# These two send serialized messages: see bulk_message.py, and Request.message in conversation.py.
BULK_PUT: Method[bytes, region.BulkAnswer] = Method(REGION + "BulkPut", bytes, region.BulkAnswer.FromString)
CONVERSE: Method[bytes, region.PointAnswers] = Method(REGION + "Converse", bytes, region.PointAnswers.FromString)
OPEN_BULK_WRITE = Method(
    _SESSIONS + "OpenBulkWrite",
    sessions.OpenBulkWriteRequest.SerializeToString,
    sessions.OpenBulkWriteResponse.FromString,
)
COMMIT_BULK_WRITE = Method(
    _SESSIONS + "CommitBulkWrite",
    sessions.CommitBulkWriteRequest.SerializeToString,
    sessions.CommitBulkWriteResponse.FromString,
)
ABORT_BULK_WRITE = Method(
    _SESSIONS + "AbortBulkWrite",
    sessions.AbortBulkWriteRequest.SerializeToString,
    sessions.AbortBulkWriteResponse.FromString,
)
OPEN_SESSION = Method(
    _SESSIONS + "OpenSession", sessions.OpenSessionRequest.SerializeToString, sessions.OpenSessionResponse.FromString
)
RENEW_SESSION = Method(
    _SESSIONS + "RenewSession", sessions.RenewSessionRequest.SerializeToString, sessions.RenewSessionResponse.FromString
)
END_SESSION = Method(
    _SESSIONS + "EndSession", sessions.EndSessionRequest.SerializeToString, sessions.EndSessionResponse.FromString
)
LIST_SESSIONS = Method(
    _SESSIONS + "ListSessions", sessions.ListSessionsRequest.SerializeToString, sessions.ListSessionsResponse.FromString
)
TAKE_LOCK = Method(
    _SESSIONS + "TakeLock", sessions.TakeLockRequest.SerializeToString, sessions.TakeLockResponse.FromString
)
RELEASE_LOCK = Method(
    _SESSIONS + "ReleaseLock", sessions.ReleaseLockRequest.SerializeToString, sessions.ReleaseLockResponse.FromString
)
LIST_LOCKS = Method(
    _SESSIONS + "ListLocks", sessions.ListLocksRequest.SerializeToString, sessions.ListLocksResponse.FromString
)
