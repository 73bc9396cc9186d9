import org.codelibs.opensearch.runner.OpenSearchRunner;

/** One node of OpenSearch on loopback ports: `java OpenSearch.java FOLDER HTTP_PORT TRANSPORT_PORT`. */
public class OpenSearch {
  public static void main(String[] arguments) throws Exception {
    var configs = OpenSearchRunner.newConfigs().basePath(arguments[0]).numOfNode(1).clusterName("qualitytrace");
    new OpenSearchRunner()
        .onBuild((number, settings) -> {
          settings.put("discovery.type", "single-node");
          settings.put("network.host", "127.0.0.1");
          settings.put("http.port", arguments[1]);
          settings.put("transport.port", arguments[2]);
          // Shards are placed also where the disk of the machine is nearly full.
          settings.put("cluster.routing.allocation.disk.threshold_enabled", "false");
        })
        .build(configs.disableESLogger());
    // The process ends when it is killed.
    Thread.currentThread().join();
  }
}
