import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FsShell;
import org.apache.hadoop.util.ToolRunner;

/**
 * Hadoop's own FsShell: a command for each line of standard input, with tabs between its words, all in one JVM.
 * The arguments are properties such as fs.defaultFS=webhdfs://127.0.0.1:8088. For each command a line is printed:
 * exit status, standard output and standard error, the latter two in base 64.
 */
public class Shell {
    public static void main(String[] properties) throws Exception {
        PrintStream answers = System.out;
        Base64.Encoder base64 = Base64.getEncoder();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = lines.readLine()) != null; ) {
            ByteArrayOutputStream out = new ByteArrayOutputStream(), errors = new ByteArrayOutputStream();
            System.setIn(new ByteArrayInputStream("typed\n".getBytes(StandardCharsets.UTF_8)));
            System.setOut(new PrintStream(out, true, "UTF-8"));
            System.setErr(new PrintStream(errors, true, "UTF-8"));
            Configuration configuration = new Configuration();
            for (String property : properties) {
                int at = property.indexOf('=');
                configuration.set(property.substring(0, at), property.substring(at + 1));
            }
            int status = ToolRunner.run(configuration, new FsShell(), line.split("\t", -1)) & 0xff;
            answers.println(status + " " + base64.encodeToString(out.toByteArray())
                + "." + base64.encodeToString(errors.toByteArray()));
            answers.flush();
        }
    }
}
