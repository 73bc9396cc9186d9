import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;

/** Mail: takes a letter, answers, and puts it into the outbox two seconds later. */
public class Mail {
    private static final String BUG = System.getenv().getOrDefault("BUG", "");
    private static final int PORT = Integer.parseInt(System.getenv().getOrDefault("PORT", "7004"));
    private static final long DELIVER_AFTER_SECONDS = 2;

    private static final ScheduledExecutorService POSTMAN = Executors.newScheduledThreadPool(1);
    private static final HttpClient CLIENT = HttpClient.newHttpClient();

    public static void main(String[] args) throws IOException {
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", PORT), 0);
        server.createContext("/healthz", exchange -> answer(exchange, 200));
        server.createContext("/mails", Mail::take);
        server.createContext("/outbox", exchange -> answer(exchange, 201));
        server.setExecutor(Executors.newFixedThreadPool(4));
        server.start();
    }

    private static void take(HttpExchange exchange) throws IOException {
        String letter = new String(exchange.getRequestBody().readAllBytes());
        if (!BUG.equals("no-delivery")) {
            POSTMAN.schedule(() -> deliver(letter), DELIVER_AFTER_SECONDS, TimeUnit.SECONDS);
        }
        answer(exchange, 202);
    }

    private static int deliver(String letter) throws Exception {
        HttpRequest request = HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + PORT + "/outbox"))
                .POST(HttpRequest.BodyPublishers.ofString(letter))
                .build();
        return CLIENT.send(request, BodyHandlers.discarding()).statusCode();
    }

    private static void answer(HttpExchange exchange, int status) throws IOException {
        exchange.getRequestBody().readAllBytes();
        exchange.sendResponseHeaders(status, -1);
        exchange.close();
    }
}
