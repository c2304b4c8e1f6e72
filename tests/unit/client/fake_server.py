"""A server in memory for the client's tests: a table of one or more regions; a script makes its calls fail.

Each mishap in `script` befalls one point request, in the order in which requests arrive; without one they are answered.
It keeps what a real server would, as far as the tests look: rows, and the answers of numbered changes.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent import futures

import grpc
from rowlock_proto.v1 import catalog_pb2, catalog_pb2_grpc, direct_pb2, region_pb2, region_pb2_grpc, types_pb2

from tests.unit.client.fake_direct import FakeDirect
from tests.unit.client.fake_errors import Mishap, RefusedError, Scripted, end_call, error
from tests.unit.client.fake_regions import FakeRegions
from tests.unit.client.plain_put_rows import mutations_of
from tests.unit.client.plain_row_form import as_requested
from tests.waiting import WAIT_S


class FakeServer(FakeRegions, region_pb2_grpc.RegionServiceServicer):
    def __init__(
        self, listen: str = "127.0.0.1:0", info_script: Iterable[types_pb2.Error] = (), *, is_direct: bool = False
    ) -> None:
        """is_direct: it has a direct port too."""
        super().__init__()
        self.lock = threading.Lock()
        # Guarded by self.lock:
        self.script: deque[Scripted] = deque()
        self.rows: dict[bytes, dict[tuple[bytes, bytes], bytes]] = {}
        self.answers: dict[tuple[bytes, int], region_pb2.MutationResult] = {}
        self.called: dict[tuple[bytes, int], bytes] = {}  # answers of procedures
        self.requests: list[region_pb2.PointRequest] = []
        self.message_sizes: list[int] = []
        self.floors: list[int] = []
        self.repeated_count = 0
        self.stream_count = 0  # of gRPC, and direct connections
        self.grpc_message_count = 0
        self.direct_message_count = 0
        # Called before each mutation, with its row.
        self.before_row: Callable[[bytes], None] = lambda row: None
        # Scripts of scans and bulk batches.
        self.scan: Callable[[region_pb2.ScanRequest], Iterator[region_pb2.ScanBatch]] | None = None
        self.scans: list[region_pb2.ScanRequest] = []
        self.bulk_script: deque[Scripted] = deque()
        self.bulk_ends: deque[types_pb2.Error | None] = deque()  # of the stream, with each batch
        self.bulks: list[region_pb2.BulkBatch] = []
        self.protocol = 1
        self.folder_id = ""
        self.mapping = ""  # that the table keeps
        self.run_id = "run"
        self.info_count = 0
        self.direct: FakeDirect | None = None
        self.direct_protocol = 3
        self.body_bytes_max = 64 << 20
        self.info_script: deque[types_pb2.Error] = deque(info_script)
        self.remembered_ms = 7_200_000

        self.answers_puts_together = True

        self.list_count = 0
        self.dropped: list[str] = []
        self.work_s: list[float | None] = []  # what flushes and drops were given
        self.snapshot_script: deque[Scripted] = deque()
        self.snapshots: list[catalog_pb2.MakeSnapshotRequest] = []
        self.plan_script: deque[types_pb2.Error] = deque()
        self.plans: list[region_pb2.PlanScanRequest] = []
        self._changed = threading.Condition(self.lock)
        # While it is not set, ListTables and DropTable wait.
        self.goes_on = threading.Event()
        self.goes_on.set()
        self._server = grpc.server(
            futures.ThreadPoolExecutor(32), options=[("grpc.so_reuseport", 0), ("grpc.max_receive_message_length", -1)]
        )
        for register in (
            catalog_pb2_grpc.add_CatalogServicer_to_server,
            region_pb2_grpc.add_RegionServiceServicer_to_server,
        ):
            register(self, self._server)  # type: ignore[no-untyped-call]  # generated code
        port = self._server.add_insecure_port(listen)
        self.address = listen if listen.startswith("unix:") else f"127.0.0.1:{port}"
        self._server.start()
        if is_direct:
            self.open_direct()

    def open_direct(self) -> FakeDirect:
        """Opens a direct port, another one if there is one."""
        if self.direct is not None:
            self.direct.stop()
        self.direct = FakeDirect(self._met_directly, self.welcome, scan=self._batches, bulk=self._met_bulk)
        return self.direct

    def welcome(self) -> direct_pb2.DirectWelcome:
        """Returns what the direct port welcomes a client with."""
        with self._changed:
            self.stream_count += 1
            self._changed.notify_all()
        return direct_pb2.DirectWelcome(
            data_folder_id=self.folder_id,
            incarnation_id=self.run_id,
            body_bytes_max=self.body_bytes_max,
            protocol=self.direct_protocol,
        )

    def stop(self) -> None:
        if self.direct is not None:
            self.direct.stop()
        self._server.stop(None).wait()

    def wait_until(self, holds: Callable[[FakeServer], bool]) -> None:
        """Blocks until the condition holds after a request; fails after WAIT_S."""
        with self._changed:
            assert self._changed.wait_for(lambda: holds(self), timeout=WAIT_S), "the expected request did not come"

    # Catalog

    def ServerInfo(  # noqa: N802  (the protocol's name)
        self, request: catalog_pb2.ServerInfoRequest, context: grpc.ServicerContext
    ) -> catalog_pb2.ServerInfoResponse:
        with self._changed:
            self.info_count += 1
            self._changed.notify_all()
        if self.info_script:
            end_call(context, self.info_script.popleft())
        direct = catalog_pb2.DirectAddress(address=self.direct.address) if self.direct is not None else None
        return catalog_pb2.ServerInfoResponse(
            version="fake",
            protocol=self.protocol,
            now_ms=1,
            data_folder_id=self.folder_id,
            incarnation_id=self.run_id,
            direct=direct,
            request_ids_remembered_ms=self.remembered_ms,
        )

    def ListTables(  # noqa: N802
        self, request: catalog_pb2.ListTablesRequest, context: grpc.ServicerContext
    ) -> catalog_pb2.ListTablesResponse:
        with self._changed:
            self.list_count += 1
            self._changed.notify_all()
        assert self.goes_on.wait(WAIT_S)
        return catalog_pb2.ListTablesResponse(tables=[types_pb2.TableDescriptor(name="t")])

    def DropTable(  # noqa: N802
        self, request: catalog_pb2.DropTableRequest, context: grpc.ServicerContext
    ) -> catalog_pb2.DropTableResponse:
        with self._changed:
            self.dropped.append(request.name)
            self.work_s.append(context.time_remaining())
            self._changed.notify_all()
        assert self.goes_on.wait(WAIT_S)
        context.abort(grpc.StatusCode.UNAVAILABLE, "the connection broke after the table was dropped")
        raise AssertionError("abort raises")

    def MakeSnapshot(  # noqa: N802
        self, request: catalog_pb2.MakeSnapshotRequest, context: grpc.ServicerContext
    ) -> catalog_pb2.MakeSnapshotResponse:
        with self._changed:
            self.snapshots.append(request)
            mishap = self.snapshot_script.popleft() if self.snapshot_script else Mishap.NONE
        if isinstance(mishap, types_pb2.Error):
            end_call(context, mishap)
        if mishap is not Mishap.NONE:
            context.abort(grpc.StatusCode.UNAVAILABLE, "the connection was cut")
        return catalog_pb2.MakeSnapshotResponse(
            snapshot=catalog_pb2.Snapshot(snapshot_id=request.snapshot_id, table=request.table, made_ms=7)
        )

    # Point operations

    def Converse(  # noqa: N802
        self, request_iterator: Iterator[region_pb2.PointRequests], context: grpc.ServicerContext
    ) -> Iterator[region_pb2.PointAnswers]:
        with self._changed:
            self.stream_count += 1
            self._changed.notify_all()
        for message in request_iterator:
            with self._changed:
                self.grpc_message_count += 1
            answers, goes_on = self._met(message)
            if answers.answers:
                yield answers
            if not goes_on:
                context.abort(grpc.StatusCode.UNAVAILABLE, "the connection was cut")

    def _met_directly(self, message: region_pb2.PointRequests) -> tuple[region_pb2.PointAnswers, bool]:
        with self._changed:
            self.direct_message_count += 1
        return self._met(message)

    def _met(self, message: region_pb2.PointRequests) -> tuple[region_pb2.PointAnswers, bool]:
        """Processes a message. Returns its answers, and whether the stream or the direct connection goes on."""
        answers = region_pb2.PointAnswers()
        with self._changed:
            self.message_sizes.append(len(message.requests))
            self.floors.append(message.sequence_floor)
            goes_on = all(self._meet(message.client_id, request, answers) for request in message.requests)
            self._changed.notify_all()
        return answers, goes_on

    def _meet(self, client_id: bytes, request: region_pb2.PointRequest, answers: region_pb2.PointAnswers) -> bool:
        """Processes a request as the script says. Returns False if the stream must end."""
        self.requests.append(request)
        mishap = self.script.popleft() if self.script else Mishap.NONE
        if isinstance(mishap, types_pb2.Error):
            answers.answers.add(id=request.id, error=mishap)
            return True
        if mishap is Mishap.REQUEST_IS_LOST:
            return False
        if request.region_id not in self.regions:
            error = types_pb2.Error(code=types_pb2.Error.NOT_SERVING_REGION, message="no such region here")
            answers.answers.add(id=request.id, error=error)
            return True
        answer = self._carry_out(client_id, request)
        if mishap is Mishap.NONE:
            answers.answers.append(answer)
        return mishap is not Mishap.ANSWER_IS_LOST

    def _carry_out(self, client_id: bytes, request: region_pb2.PointRequest) -> region_pb2.PointAnswer:
        answer = region_pb2.PointAnswer(id=request.id)
        if request.WhichOneof("operation") == "get":
            for row in request.get.rows:
                cells = [
                    types_pb2.Cell(family=family, qualifier=qualifier, value=value, timestamp=1)
                    for (family, qualifier), value in sorted(self.rows.get(row, {}).items())
                ]
                answer.get.rows.add(cells=cells)
            return answer
        if request.HasField("call"):
            self._call(client_id, request.call, answer)
            return answer
        is_in_columns = request.HasField("put_rows")
        mutations = mutations_of(request.put_rows) if is_in_columns else request.mutate.mutations
        for mutation in mutations:
            self.before_row(mutation.row)
            kept = self.answers.get((client_id, mutation.sequence))
            if not self.has(request.region_id, mutation.row):
                kept = region_pb2.MutationResult(error=error(types_pb2.Error.NOT_SERVING_REGION, "it was split"))
            elif kept is None:
                kept = self._mutate(mutation)
                self.answers[(client_id, mutation.sequence)] = kept
            else:
                self.repeated_count += 1
            (answer.put_rows if is_in_columns else answer.mutate).results.append(kept)
        if (
            is_in_columns
            and self.answers_puts_together
            and not any(result.HasField("error") for result in answer.put_rows.results)
        ):
            answer.put_rows.ClearField("results")
            answer.put_rows.timestamp = 1
        return answer

    def _call(self, client_id: bytes, called: region_pb2.CallProcedure, answer: region_pb2.PointAnswer) -> None:
        """The only procedure counts its calls, and answers with the count and its argument."""
        if called.name != "count":
            answer.error.CopyFrom(error(types_pb2.Error.PROCEDURE_NOT_FOUND, "no such procedure"))
            return
        key = (client_id, called.sequence)
        self.repeated_count += key in self.called
        if key not in self.called:
            self.called[key] = b"%d %s" % (len(self.called) + 1, called.argument)
        answer.call.answer = self.called[key]

    def _mutate(self, mutation: region_pb2.RowMutation) -> region_pb2.MutationResult:
        result = region_pb2.MutationResult(condition_met=True, timestamp=1)
        row = self.rows.setdefault(mutation.row, {})
        for check in mutation.condition.checks:  # Every one of them holds.
            value = row.get((check.family, check.qualifier))
            if value is not None:
                result.seen.add(family=check.family, qualifier=check.qualifier, value=value)
        for change in mutation.changes:
            if change.WhichOneof("change") == "put":
                row[(change.put.family, change.put.qualifier)] = change.put.value
            elif change.WhichOneof("change") == "increment":
                column = (change.increment.family, change.increment.qualifier)
                number = int.from_bytes(row.get(column, bytes(8)), "big", signed=True) + change.increment.amount
                row[column] = number.to_bytes(8, "big", signed=True)
                result.results.add(family=column[0], qualifier=column[1], value=row[column])
            elif change.WhichOneof("change") == "append":
                column = (change.append.family, change.append.qualifier)
                row[column] = row.get(column, b"") + change.append.suffix
                result.results.add(family=column[0], qualifier=column[1], value=row[column])
        return result

    # Flushes, scans and bulk batches

    def Flush(  # noqa: N802
        self, request: region_pb2.FlushRequest, context: grpc.ServicerContext
    ) -> region_pb2.FlushResponse:
        with self._changed:
            self.work_s.append(context.time_remaining())
            self._changed.notify_all()
        assert self.goes_on.wait(WAIT_S)
        return region_pb2.FlushResponse(store_file_count=1, cell_count=len(self.work_s))

    def PlanScan(  # noqa: N802
        self, request: region_pb2.PlanScanRequest, context: grpc.ServicerContext
    ) -> region_pb2.PlanScanResponse:
        with self._changed:
            self.plans.append(request)
            error = self.plan_script.popleft() if self.plan_script else None
        if error is not None:
            end_call(context, error)
        return region_pb2.PlanScanResponse(parts=[region_pb2.ScanPart(ranges=request.ranges, byte_count=5)])

    def Scan(  # noqa: N802
        self, request: region_pb2.ScanRequest, context: grpc.ServicerContext
    ) -> Iterator[region_pb2.ScanBatch]:
        try:
            yield from self._batches(request)
        except ConnectionError as lost:
            context.abort(grpc.StatusCode.UNAVAILABLE, str(lost))
        except RefusedError as refused:
            end_call(context, refused.error)

    def _batches(self, request: region_pb2.ScanRequest) -> Iterator[region_pb2.ScanBatch]:
        with self._changed:
            self.scans.append(request)
            scan = self.scan
            self._changed.notify_all()
        assert scan is not None, "the test says what scans answer"
        for batch in scan(request):
            yield as_requested(request, batch)

    def BulkPut(  # noqa: N802
        self, request_iterator: Iterator[region_pb2.BulkBatch], context: grpc.ServicerContext
    ) -> Iterator[region_pb2.BulkAnswer]:
        for batch in request_iterator:
            try:
                answer, goes_on = self._met_bulk(batch)
            except RefusedError as refused:
                end_call(context, refused.error)
            if answer is not None:
                yield answer
            elif not goes_on:
                context.abort(grpc.StatusCode.UNAVAILABLE, "the connection was cut")

    def _met_bulk(self, batch: region_pb2.BulkBatch) -> tuple[region_pb2.BulkAnswer | None, bool]:
        """Returns the answer to a batch or None, and whether the stream stays open."""
        with self._changed:
            self.bulks.append(batch)
            mishap = self.bulk_script.popleft() if self.bulk_script else Mishap.NONE
            end = self.bulk_ends.popleft() if self.bulk_ends else None
            self._changed.notify_all()
        if end is not None:
            raise RefusedError(end)
        if isinstance(mishap, types_pb2.Error):
            return region_pb2.BulkAnswer(error=mishap), True
        if mishap is Mishap.NONE:
            return region_pb2.BulkAnswer(cell_count=1, row_count=1, timestamp=1), True
        return None, mishap is Mishap.NO_ANSWER
