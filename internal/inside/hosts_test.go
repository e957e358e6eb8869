package inside

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/bee-hpc/bee/internal/bench/fair"
	"github.com/bee-hpc/bee/internal/core"
)

// mainVariable has the test binary run a command line of this package in place of tests.
const mainVariable = "BEE_TEST_INSIDE"

func TestMain(m *testing.M) {
	if os.Getenv(mainVariable) != "" {
		os.Exit(Main(os.Args[2:]))
	}
	os.Exit(m.Run())
}

// TestOtherHosts looks at processes of a run on two other hosts, for which this one and a script stand in. Nothing is
// seen of those whose agent fails, ends early or prints something else.
func TestOtherHosts(t *testing.T) {
	dir := t.TempDir()
	agent := `#!/bin/sh
case $1 in
alike) export ` + mainVariable + `=1 BEE_PROGRAM="$(dirname "$0")/bee"; exec /bin/sh -c "$2" ;;
unlike) echo watching; cat > /dev/null; echo '{"programs": {"/solver": "5ef1"}, "host": "a lie"}' ;;
ended) echo watching ;;
strange) echo hello; cat > /dev/null ;;
*) exit 255 ;;
esac
`
	program, err := os.Executable()
	if err == nil {
		err = os.Symlink(program, filepath.Join(dir, "bee"))
	}
	if err == nil {
		err = core.WriteProgram(filepath.Join(dir, "rsh"), []byte(agent), 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	before := os.Args[0]
	os.Args[0] = filepath.Join(dir, "bee")
	t.Cleanup(func() { os.Args[0] = before })
	t.Setenv(runVariable, "of-several-hosts")
	t.Setenv("BEE_NODELIST", "alike,here,unlike,ended,strange,broken")
	t.Setenv("BEE_NODE_RANK", "1")
	var out bytes.Buffer
	code, err := runWatched(&out, Digests, []string{"/bin/sh", "-c", "sleep 0.5"})
	text := out.String()
	if err != nil || code != 0 || len(text) < 3*MarkLength {
		t.Fatalf("%q, code %d, %v", text, code, err)
	}
	var found fair.Found
	if err := json.Unmarshal([]byte(text[3*MarkLength:]), &found); err != nil {
		t.Fatal(err)
	}
	if len(found.Programs) == 0 || len(found.Others) != 2 || !slices.Equal(found.Unseen, []string{"ended", "strange", "broken"}) {
		t.Fatalf("%+v", found)
	}
	if o := found.Others[0]; o.Host != "alike" || o.Cores == 0 || len(o.Programs) != 0 {
		t.Errorf("on a host with the same programs: %+v", o)
	}
	if o := found.Others[1]; o.Host != "unlike" || o.Programs["/solver"] != "5ef1" {
		t.Errorf("on a host with another program: %+v", o)
	}
}

// TestNoOtherHosts: without a list of hosts that names this one, there is no other.
func TestNoOtherHosts(t *testing.T) {
	for rank, hosts := range map[string]string{"0": "here", "": "a,b", "2": "a,b", "-1": "a,b"} {
		t.Setenv("BEE_NODELIST", hosts)
		t.Setenv("BEE_NODE_RANK", rank)
		if others := otherHosts(); len(others) > 0 {
			t.Errorf("rank %q of %q: %q", rank, hosts, others)
		}
	}
}
