package hostile

import (
	"os"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/testkit/hostilesite"
	"github.com/bee-hpc/bee/internal/testkit/sshfarm"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

func TestMain(m *testing.M) {
	for _, main := range []func([]string) (int, bool){callerMain, hostilesite.Main, sshfarm.Main} {
		if code, meant := main(os.Args); meant {
			os.Exit(code)
		}
	}
	os.Exit(m.Run())
}

// busyboxJob is a bee with a small image, and a Beefile of it.
func busyboxJob(t *testing.T, lines ...string) (*testkit.Bee, string) {
	t.Helper()
	b := testkit.NewBee(t)
	image := testkit.Busybox(t, v1.Config{Env: []string{"PATH=/bin:/usr/bin"}})
	return b, b.File("job.yaml", "name: small\nimage: docker-archive:"+image+"\n"+strings.Join(lines, "\n")+"\n")
}
