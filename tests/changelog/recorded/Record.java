import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.format.Json;
import java.io.FileReader;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.util.Properties;
import java.util.concurrent.Executors;

/** Writes the values of Debezium's messages to a file, a line each, until one of them contains a text. */
public class Record {
    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        try (FileReader file = new FileReader(arguments[0])) {
            properties.load(file);
        }
        PrintWriter out = new PrintWriter(arguments[1], StandardCharsets.UTF_8);
        DebeziumEngine<ChangeEvent<String, String>> engine = DebeziumEngine.create(Json.class)
            .using(properties)
            .notifying(event -> {
                out.println(event.value());
                out.flush();
                if (event.value() != null && event.value().contains(arguments[2])) {
                    Runtime.getRuntime().halt(0);
                }
            })
            .build();
        Executors.newSingleThreadExecutor().execute(engine);
    }
}
