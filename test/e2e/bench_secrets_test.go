package e2e

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/testkit"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/klauspost/compress/zstd"
)

// textsIn are the contents of all files below a directory by their paths, those of compressed ones too.
func textsIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	texts := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		if err == nil && strings.HasSuffix(path, ".zst") {
			var z *zstd.Decoder
			if z, err = zstd.NewReader(strings.NewReader(string(raw))); err == nil {
				raw, err = io.ReadAll(z)
				z.Close()
			}
		}
		texts[path] = string(raw)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return texts
}

// TestBenchHidesSecrets measures jobs that print their secrets, write them into outputs and name files by them, and looks
// for the values in all that is written of it.
func TestBenchHidesSecrets(t *testing.T) {
	t.Parallel()
	bee := testkit.NewBee(t)
	image := testkit.Busybox(t, v1.Config{Env: []string{"PATH=/bin"}})
	// A part of each value has no character that HTML, JSON or a shell writes otherwise.
	bee.Env = append(bee.Env, `HERS=hers-s3cr3t"<&\`, "SHORT=abc")
	bee.File("token", "first-s3cr3t of two\nsecond-s3cr3t of two\n")
	study := fmt.Sprintf(`study: secrets
job:
  image: "docker-archive:%s"
  secrets: {TOKEN: {file: token}, HERS: {env: HERS}, DRAWN: {exec: 'printf drawn-s3; echo cr3t-$$'}}
  workdir: /work
  run: 'echo "$TOKEN" $TOKEN "[$HERS]"; echo of $DRAWN; echo speed 5; echo "$HERS" > result; echo "speed $DRAWN" >> result; eval "$ALSO"'
  env: {ALSO: "true"}
  outputs: [{from: /work/result, to: ./results}]
environments:
  plain: {runtime: rootless}
  failing: {runtime: rootless, env: {ALSO: 'echo $HERS >&2; exit 7'}}
  other: {runtime: rootless, bee: %q}
  short: {runtime: rootless, secrets: {SHORT: {env: SHORT}}}
  wrong: {runtime: rootless, env: {ALSO: 'echo speed $DRAWN'}}
  named: {runtime: rootless, env: {ALSO: 'cp /bin/busybox ./busybox-$DRAWN; exec ./busybox-$DRAWN sleep 0.3'}}
metrics: {speed: {regex: '^speed (\S+)', unit: "1", better: higher, primary: true}}
check: [{regex: '^speed \*\*\*$', file: result}]
method: {blocks: 1}
`, image, testkit.Binary(t))
	file, out := bee.File("study.yaml", study), filepath.Join(bee.Dir, "out")
	printed := map[string]string{}
	keep := func(args ...string) {
		got := bee.Try(append([]string{"bench"}, args...)...)
		if got.Code != 0 {
			t.Fatalf("bench %s ends with %d:\n%s\n%s", args, got.Code, got.Stdout, got.Stderr)
		}
		printed[strings.Join(args, " ")] = got.Stdout + got.Stderr
	}
	keep("run", "--wait", "0s", file, "-o", out, "--json")
	for _, form := range []string{"--html", "--markdown", "--csv", "--json"} {
		keep("report", out, form)
		keep("report", out, form, "--redact")
	}
	keep("report", out)

	for environment, status := range map[string]string{"plain": "ok", "failing": "failed", "wrong": "failed", "other": "ok", "named": "ok"} {
		rows := rowsOf(t, out, environment)
		if len(rows) == 0 {
			t.Errorf("%s was not measured", environment)
		}
		for _, row := range rows {
			if row.Status != status || status == "failed" && !strings.Contains(row.Error, "***") {
				t.Errorf("%s: %s %q, expected %s", environment, row.Status, row.Error, status)
			}
		}
	}
	if rows := rowsOf(t, out, "short"); len(rows) > 0 || !strings.Contains(printed["report "+out], "fewer than 4 characters") {
		t.Errorf("a secret of three characters was measured: %+v\n%s", rows, printed["report "+out])
	}
	logs := 0
	for path, text := range textsIn(t, out) {
		if strings.HasSuffix(path, ".zst") && strings.Contains(text, "***") {
			logs++
		}
		printed[path] = text
	}
	if logs < 10 { // two blocks of five environments
		t.Errorf("%d logs have what is in place of secrets", logs)
	}
	for name, text := range printed {
		if at := strings.Index(text, "s3cr3t"); at >= 0 {
			t.Errorf("%s has the value of a secret: …%s…", name, text[max(0, at-100):min(len(text), at+100)])
		}
	}

	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for _, form := range []string{"--html", "--markdown", "--csv", "--json"} {
		text := strings.ReplaceAll(printed["report "+out+" "+form+" --redact"], ":root{", "") // a selector of CSS
		for what, name := range map[string]string{"host": host, "user": me.Username, "directory": bee.Dir, "home": me.HomeDir, "program": "/bin/busybox"} {
			if len(name) < 3 { // names of fields, too
				continue
			}
			if regexp.MustCompile(`(^|[^A-Za-z0-9])` + regexp.QuoteMeta(name) + `($|[^A-Za-z0-9])`).MatchString(text) {
				t.Errorf("the redacted report (%s) has the %s %q", form, what, name)
			}
		}
		if form != "--csv" && !strings.Contains(text, "failing") {
			t.Errorf("the redacted report (%s) has nothing of what was measured: %s", form, text)
		}
	}
}
