import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.StringJoiner;
import java.util.TreeMap;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.hbase.HBaseConfiguration;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.ConnectionFactory;
import org.apache.hadoop.hbase.client.Get;
import org.apache.hadoop.hbase.client.Put;
import org.apache.hadoop.hbase.client.Table;
import org.apache.hadoop.hbase.util.Bytes;

/**
 * A worker process with HBase's own client: bench/ycsb/worker.py in Java, for gets, puts and increments.
 *
 *     java -cp CLASS_PATH HBaseWorker.java TABLE ROW_COUNT
 *
 * The lines it reads and writes are those of bench/ycsb/jobs.py, the rows those of bench/ycsb/rows.py, and the buckets
 * of latencies those of bench/histogram.py. hbase-site.xml on the class path says where HBase is.
 */
public final class HBaseWorker {
  private static final byte[] FAMILY = Bytes.toBytes("f");
  private static final byte[] COUNTER_ROW = Bytes.toBytes("counter");
  private static final byte[] COUNTER = Bytes.toBytes("counter");
  private static final int FIELD_COUNT = 10;
  private static final int FIELD_BYTES = 100;
  private static final int BUCKET_BITS = 7;
  private static final double THETA = 0.99;

  private final Connection connection;
  private final TableName tableName;
  private final int rowCount;
  private final double totalWeight;
  private Prepared prepared;

  private HBaseWorker(Connection connection, String table, int rowCount) {
    this.connection = connection;
    this.tableName = TableName.valueOf(table);
    this.rowCount = rowCount;
    double sum = 0;
    for (int rank = 1; rank <= rowCount; rank++) sum += Math.pow(rank, -THETA);
    this.totalWeight = sum;
  }

  public static void main(String[] words) throws Exception {
    // What libraries print must not be taken for an answer.
    java.io.PrintStream answers = System.out;
    System.setOut(System.err);
    try (Connection connection = ConnectionFactory.createConnection(HBaseConfiguration.create())) {
      HBaseWorker worker = new HBaseWorker(connection, words[0], Integer.parseInt(words[1]));
      BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
      for (String line = lines.readLine(); line != null; line = lines.readLine()) {
        String answer;
        try {
          answer = worker.answer(line);
        } catch (Exception failure) {
          failure.printStackTrace();
          answer = "{\"error\": \"" + failure.toString().replaceAll("[\"\\\\\\p{Cntrl}]", " ") + "\"}";
        }
        answers.println(answer);
        answers.flush();
      }
    }
  }

  private String answer(String line) throws Exception {
    String[] parts = line.trim().split(" ");
    Map<String, String> words = new HashMap<>();
    for (int i = 1; i < parts.length; i++) {
      int at = parts[i].indexOf('=');
      words.put(parts[i].substring(0, at), parts[i].substring(at + 1));
    }
    if (parts[0].equals("prepare")) {
      prepared = new Prepared(words);
      return "{\"ready\": " + words.get("threads") + "}";
    }
    if (parts[0].equals("measure") && prepared != null) return prepared.measure();
    throw new IllegalArgumentException("no such command now: " + line);
  }

  private static long fnv64(long number) {
    long digest = 0xCBF29CE484222325L;
    for (int i = 0; i < 8; i++) {
      digest = (digest ^ (number & 0xff)) * 1099511628211L;
      number >>>= 8;
    }
    return Math.abs(digest);
  }

  private static int bucketOf(long nanoseconds) {
    int length = 64 - Long.numberOfLeadingZeros(nanoseconds);
    int shift = Math.max(0, length - BUCKET_BITS - 1);
    return (shift << BUCKET_BITS) + (int) (nanoseconds >> shift);
  }

  private interface Operation {
    void run() throws Exception;
  }

  /** What one thread did. */
  private record Outcome(long operations, double seconds, TreeMap<Integer, Long> latencies) {}

  /** One thread with its own random numbers. */
  private final class Caller {
    private final Table table;
    private final Random random;

    Caller(Table table, long seed) {
      this.table = table;
      this.random = new Random(seed);
    }

    private byte[] row() {
      double second = 1 + Math.pow(0.5, THETA);
      double eta = (1 - Math.pow(2.0 / rowCount, 1 - THETA)) / (1 - second / totalWeight);
      double share = random.nextDouble();
      double weight = share * totalWeight;
      long rank = weight < 1 ? 0 : weight < second ? 1 : (long) (rowCount * Math.pow(eta * share - eta + 1, 1 / (1 - THETA)));
      return Bytes.toBytes(String.format("user%019d", fnv64(fnv64(Math.min(rank, rowCount - 1)) % rowCount)));
    }

    Operation operation(String name) {
      switch (name) {
        case "get":
          return () -> {
            int found = table.get(new Get(row())).size();
            if (found != FIELD_COUNT) throw new IllegalStateException("a row has " + found + " columns");
          };
        case "put":
          return () -> {
            Put put = new Put(row());
            for (int field = 0; field < FIELD_COUNT; field++) {
              byte[] value = new byte[FIELD_BYTES];
              random.nextBytes(value);
              put.addColumn(FAMILY, Bytes.toBytes("field" + field), value);
            }
            table.put(put);
          };
        case "increment":
          return () -> table.incrementColumnValue(COUNTER_ROW, FAMILY, COUNTER, 1);
        default:
          throw new IllegalArgumentException("the Java worker has no operation " + name);
      }
    }
  }

  /** The threads of a job, warm and waiting for the start. */
  private final class Prepared {
    private final CyclicBarrier barrier;
    private final ExecutorService threads;
    private final List<Future<Outcome>> running = new ArrayList<>();

    Prepared(Map<String, String> words) throws Exception {
      int count = Integer.parseInt(words.get("threads"));
      long seed = Long.parseLong(words.get("seed"));
      barrier = new CyclicBarrier(count + 1);
      threads = Executors.newFixedThreadPool(count);
      for (int thread = 0; thread < count; thread++) {
        long own = seed + thread;
        running.add(threads.submit(() -> run(words, own)));
      }
      meet();
    }

    private Outcome run(Map<String, String> words, long seed) throws Exception {
      try (Table table = connection.getTable(tableName)) {
        Operation operation = new Caller(table, seed).operation(words.get("operation"));
        long warm = System.nanoTime() + (long) (Double.parseDouble(words.get("warm_s")) * 1e9);
        while (System.nanoTime() < warm) operation.run();
        barrier.await();
        barrier.await();
        TreeMap<Integer, Long> latencies = new TreeMap<>();
        long start = System.nanoTime();
        long stop = start + (long) (Double.parseDouble(words.get("measured_s")) * 1e9);
        long now = start;
        long operations = 0;
        while (operations == 0 || now < stop) {
          operation.run();
          long before = now;
          now = System.nanoTime();
          latencies.merge(bucketOf(now - before), 1L, Long::sum);
          operations++;
        }
        return new Outcome(operations, (now - start) / 1e9, latencies);
      } catch (Exception failure) {
        try {
          barrier.await(0, TimeUnit.MILLISECONDS); // breaks the barrier for all others
        } catch (Exception broken) {
          // The failure itself is what the caller must see.
        }
        throw failure;
      }
    }

    private void meet() throws Exception {
      try {
        barrier.await(600, TimeUnit.SECONDS);
      } catch (Exception broken) {
        threads.shutdownNow();
        for (Future<Outcome> future : running) if (future.isDone()) future.get();
        throw broken;
      }
    }

    String measure() throws Exception {
      meet();
      long operations = 0;
      double seconds = 0;
      TreeMap<Integer, Long> latencies = new TreeMap<>();
      for (Future<Outcome> future : running) {
        Outcome outcome = future.get();
        operations += outcome.operations();
        seconds = Math.max(seconds, outcome.seconds());
        outcome.latencies().forEach((bucket, count) -> latencies.merge(bucket, count, Long::sum));
      }
      threads.shutdown();
      prepared = null;
      StringJoiner counts = new StringJoiner(", ", "{", "}");
      latencies.forEach((bucket, count) -> counts.add("\"" + bucket + "\": " + count));
      return "{\"operations\": " + operations + ", \"rows\": " + operations + ", \"seconds\": " + seconds
          + ", \"latencies\": " + counts + "}";
    }
  }
}
