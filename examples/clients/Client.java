// A complete Headgate client in Java 17 or newer, without libraries. See README.md in this folder.
//
//   java Client.java lock RESOURCE COMMAND...   run a command while holding an exclusive lock
//   java Client.java work JOB COMMAND...        run a command on each chunk of a job, until nothing is left

import java.io.IOException;
import java.net.InetAddress;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

public class Client {
    static final int REFUSED = 75, LOST = 76, UNAVAILABLE = 69;
    static final String SERVER = System.getenv("HEADGATE_SERVER"), SECRET = System.getenv("HEADGATE_API_TOKEN");
    /** Seconds; renewed three times as often. */
    static final double LEASE = Double.parseDouble(setting("HEADGATE_LEASE", "30"));
    /** Seconds for which a request is retried while the service is away. */
    static final double PATIENCE = Double.parseDouble(setting("HEADGATE_PATIENCE", "60"));
    static final HttpClient HTTP = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1)
            .connectTimeout(Duration.ofSeconds(10)).build();
    static volatile Process running;
    static volatile boolean stopped;

    /** What was answered; status 0: nothing. */
    record Answer(int status, Map<?, ?> found, int tries) {
        String detail() {
            return String.valueOf(found.get("detail"));
        }
    }

    /**
     * Sends a request, and again while the service is away, for so many seconds at most. All repeats carry one
     * Idempotency-Key: they have no second effect.
     */
    static Answer ask(String method, String path, Map<String, ?> body, double seconds) throws InterruptedException {
        double until = now() + seconds;
        HttpRequest request = HttpRequest.newBuilder(URI.create(SERVER + path))
                .method(method, body == null ? BodyPublishers.noBody() : BodyPublishers.ofString(Json.write(body)))
                .timeout(Duration.ofSeconds(10)) // Each attempt has a deadline of its own.
                .header("Authorization", "Bearer " + SECRET)
                .header("Idempotency-Key", UUID.randomUUID().toString())
                .header("Content-Type", "application/json").build();
        for (int tries = 1;; tries++) {
            int status = 0;
            double pause = 1;
            Map<?, ?> found = Map.of();
            try {
                HttpResponse<String> answer = HTTP.send(request, BodyHandlers.ofString());
                found = answer.body().isEmpty() ? Map.of() : (Map<?, ?>) Json.read(answer.body());
                pause = Double.parseDouble(answer.headers().firstValue("Retry-After").orElse("1"));
                status = answer.statusCode();
            } catch (IOException | RuntimeException error) {
                status = 0; // It could not be reached, or its answer was cut off.
            }
            // 503: its store does not answer. key-in-use: the first attempt, whose answer was lost, is still running.
            boolean busy = "urn:headgate:key-in-use".equals(found.get("type"));
            if (status != 0 && status != 429 && status != 503 && !busy) {
                return new Answer(status, found, tries);
            }
            if (now() + pause > until) {
                return new Answer(0, Map.of("detail", "the service does not answer"), tries);
            }
            Thread.sleep((long) (pause * 1000));
        }
    }

    /** Runs the command while its lease is renewed. Returns its exit code; null if the lease was lost. */
    static Integer hold(String path, long token, List<String> command, Map<String, String> variables)
            throws InterruptedException {
        double renewed = now();
        boolean lost = false;
        ProcessBuilder builder = new ProcessBuilder(command).inheritIO();
        builder.environment().putAll(variables);
        try {
            running = builder.start();
        } catch (IOException error) {
            say(error.getMessage());
            return 127;
        }
        while (!running.waitFor((long) (LEASE / 3 * 1000), TimeUnit.MILLISECONDS)) {
            if (lost) {
                continue;
            }
            double asked = now();
            Answer answer = ask("POST", path, Map.of("token", token, "lease", LEASE), renewed + LEASE - asked);
            if (answer.status() == 200) {
                renewed = asked; // The lease counts from before the request: never later than the service counts.
            } else if (running.isAlive()) {
                lost = true;
                say("the lease was lost: " + answer.detail());
                running.destroy();
            }
        }
        int code = running.exitValue();
        running = null;
        return lost ? null : code;
    }

    static int lock(String resource, List<String> command) throws InterruptedException {
        Map<String, ?> wanted = Map.of("client", name(), "resource", resource, "lease", LEASE);
        Answer granted = ask("POST", "/v1/locks", wanted, PATIENCE);
        if (granted.status() != 201) {
            say(granted.detail());
            return granted.status() == 409 ? REFUSED : granted.status() == 0 ? UNAVAILABLE : 2;
        }
        Map<?, ?> lock = (Map<?, ?>) ((List<?>) granted.found().get("locks")).get(0);
        long token = ((Number) lock.get("token")).longValue();
        String path = "/v1/locks/" + lock.get("id");
        Integer code = hold(path + "/renew", token, command, Map.of("HEADGATE_TOKEN", "" + token));
        if (code == null) {
            return LOST; // It is not ours any more: nothing to release.
        }
        Answer released = ask("DELETE", path + "?token=" + token, null, PATIENCE);
        if (released.status() == 0) {
            say("not released: the lease will expire");
        }
        // A repeat finds nothing to release if the answer to the first attempt was lost.
        if (released.status() == 409 && released.tries() == 1) {
            say(released.detail());
            return LOST;
        }
        return code;
    }

    static int work(String job, List<String> command) throws InterruptedException {
        int result = 0;
        String path = "/v1/jobs/" + escaped(job);
        while (true) {
            Answer claim = ask("POST", path + "/next", Map.of("worker", name(), "lease", LEASE), PATIENCE);
            if (claim.status() == 204) {
                return result; // Nothing left to do.
            }
            if (claim.status() != 200) {
                say(claim.detail());
                return claim.status() == 0 ? UNAVAILABLE : 2;
            }
            String dataid = (String) claim.found().get("dataid");
            long token = ((Number) claim.found().get("token")).longValue();
            String chunk = path + "/chunks/" + escaped(dataid);
            Map<String, String> variables = Map.of("HEADGATE_DATAID", dataid, "HEADGATE_TOKEN", "" + token);
            Integer code = hold(chunk + "/heartbeat", token, command, variables);
            if (code == null) {
                result = 1;
                continue;
            }
            String outcome = stopped ? "interrupt" : code == 0 ? "success" : "fail";
            Map<String, Object> report = new LinkedHashMap<>(Map.of("token", token));
            if (stopped) { // No failure: the chunk is claimable again at once.
                report.put("message", "the worker was stopped");
            } else if (code != 0) {
                report.put("message", "exit code " + code);
                result = 1;
            }
            Answer reported = ask("POST", chunk + "/" + outcome, report, PATIENCE);
            if (reported.status() != 204) { // Stale: somebody else has it.
                say(dataid + ": " + reported.detail());
                if (reported.status() == 0) {
                    return UNAVAILABLE;
                }
                result = 1;
            }
            if (stopped) {
                return 143;
            }
        }
    }

    /** JSON, as far as it is needed here. */
    static class Json {
        static final Pattern TOKEN = Pattern.compile(
                "\\s*([\\[\\]{},:]|\"[^\"\\\\]*+(?:\\\\.[^\"\\\\]*+)*+\"|-?\\d[\\d.eE+-]*|true|false|null)\\s*");
        final Matcher words;
        String word;

        Json(String text) {
            words = TOKEN.matcher(text);
            next();
        }

        static Object read(String text) {
            return new Json(text).value();
        }

        void next() {
            word = words.lookingAt() ? words.group(1) : null;
            words.region(word == null ? words.regionEnd() : words.end(), words.regionEnd());
        }

        Object value() {
            String first = word;
            next();
            if (first.equals("{")) {
                Map<String, Object> found = new LinkedHashMap<>();
                while (!word.equals("}")) {
                    String key = text(word);
                    next(); // The name
                    next(); // and the colon.
                    found.put(key, value());
                    if (word.equals(",")) {
                        next();
                    }
                }
                next();
                return found;
            }
            if (first.equals("[")) {
                List<Object> found = new ArrayList<>();
                while (!word.equals("]")) {
                    found.add(value());
                    if (word.equals(",")) {
                        next();
                    }
                }
                next();
                return found;
            }
            return switch (first) {
                case "true" -> true;
                case "false" -> false;
                case "null" -> null;
                default -> first.startsWith("\"") ? text(first) : number(first);
            };
        }

        static Number number(String word) {
            return word.matches("-?\\d+") ? (Number) Long.valueOf(word) : Double.valueOf(word);
        }

        static String text(String quoted) {
            StringBuilder found = new StringBuilder();
            for (int at = 1; at < quoted.length() - 1; at++) {
                char letter = quoted.charAt(at);
                if (letter == '\\') {
                    letter = quoted.charAt(++at);
                    int known = "nrtbf".indexOf(letter);
                    if (letter == 'u') {
                        letter = (char) Integer.parseInt(quoted.substring(at + 1, at + 5), 16);
                        at += 4;
                    } else if (known >= 0) {
                        letter = "\n\r\t\b\f".charAt(known);
                    }
                }
                found.append(letter);
            }
            return found.toString();
        }

        static String write(Map<String, ?> body) {
            List<String> parts = new ArrayList<>();
            body.forEach((key, value) -> parts.add(quoted(key) + ":" + (value instanceof String text ? quoted(text) : value)));
            return "{" + String.join(",", parts) + "}";
        }

        static String quoted(String text) {
            StringBuilder found = new StringBuilder("\"");
            for (char letter : text.toCharArray()) {
                found.append(letter < ' ' || letter == '"' || letter == '\\' ? String.format("\\u%04x", (int) letter) : letter);
            }
            return found.append('"').toString();
        }
    }

    static String setting(String variable, String usual) {
        String found = System.getenv(variable);
        return found == null || found.isEmpty() ? usual : found;
    }

    static String name() {
        try {
            return setting("HEADGATE_CLIENT", System.getProperty("user.name") + "@" + InetAddress.getLocalHost().getHostName());
        } catch (IOException error) {
            return System.getProperty("user.name");
        }
    }

    static String escaped(String text) {
        return URLEncoder.encode(text, StandardCharsets.UTF_8).replace("+", "%20");
    }

    static double now() {
        return System.nanoTime() / 1e9;
    }

    static void say(String text) {
        System.err.println("Client.java: " + text);
    }

    public static void main(String[] words) throws InterruptedException {
        boolean known = words.length >= 3 && List.of("lock", "work").contains(words[0]);
        if (SERVER == null || SECRET == null || !known) {
            say("usage: lock RESOURCE COMMAND... | work JOB COMMAND... (HEADGATE_SERVER and HEADGATE_API_TOKEN are set)");
            System.exit(2);
        }
        Thread main = Thread.currentThread();
        // A client that is asked to stop stops its command, and then releases its lock or reports the interruption.
        Thread stop = new Thread(() -> {
            stopped = true;
            Process command = running;
            if (command != null) {
                command.destroy();
            }
            try {
                main.join();
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
            }
        });
        Runtime.getRuntime().addShutdownHook(stop);
        List<String> command = Arrays.asList(words).subList(2, words.length);
        int code = words[0].equals("lock") ? lock(words[1], command) : work(words[1], command);
        if (!stopped) {
            Runtime.getRuntime().removeShutdownHook(stop);
            System.exit(code);
        }
    }
}
