package testkit

import (
	"archive/tar"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// VerbsImage has stock programs with verbs, and busybox.
func VerbsImage(t testing.TB) string {
	t.Helper()
	l := NewLayer(t)
	for _, dir := range []string{"tmp", "root", "dev", "proc", "sys", "etc"} {
		l.Add(tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o755}, nil)
	}
	l.Busybox("bin", "sh ls cat sleep touch tr env echo grep kill")
	for _, program := range []string{"ibv_devinfo", "ibv_rc_pingpong", "ib_write_bw"} {
		l.Program(RequireTool(t, program))
	}
	threads, err := filepath.Glob("/lib*/*/libgcc_s.so.1") // which threads that end load
	if err != nil || len(threads) == 0 {
		Missing(t, "libgcc_s.so.1 is not installed: %v", err)
	}
	for _, program := range []string{"rping", "mckey"} {
		l.Program(RequireTool(t, program), threads[0])
	}
	return l.Archive("docker.io/test/verbs:1", v1.Config{Env: []string{"PATH=/bin:/usr/bin"}})
}

// VerbsPairs runs a program on both nodes: as the server on the first, and as its client on the
// second.
const VerbsPairs = `
  set -- $(echo "$BEE_NODELIST" | tr , " ")
  both() {
    /.bee/rsh $server "$@" >server.out 2>&1 & pid=$!
    until /.bee/rsh $client "$@" $server >client.out 2>&1; do
      kill -0 $pid 2>/dev/null || { cat server.out client.out; exit 1; }
      sleep 0.1
    done
    wait $pid
  }
  server=$1 client=$2
`

// VerbsByAddress is the command of docs/how-to/rdma.md that connects by address.
func VerbsByAddress(t testing.TB) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(Root(t), "docs/how-to/rdma.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(raw), "### Connections by address")
	_, block, _ := strings.Cut(section, "run: |\n")
	command, _, is := strings.Cut(block, "```")
	if !is || !strings.Contains(command, "rping") {
		t.Fatalf("the page has no such command: %q", command)
	}
	return command
}
