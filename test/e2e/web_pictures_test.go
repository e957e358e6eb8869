package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/chromedp/chromedp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// TestPicturesOfPages makes the pictures of docs/how-to/web, of runs with plain names, where
// BEE_TEST_PICTURES names a directory. Elsewhere, pages with worse names are looked at.
func TestPicturesOfPages(t *testing.T) {
	if os.Getenv("BEE_TEST_PICTURES") == "" {
		testkit.Long(t, "TestPagesInABrowser and TestArrayInABrowser")
		t.Setenv("BEE_TEST_PICTURES", t.TempDir())
	}
	b := testkit.NewBee(t)
	b.Env = append(b.Env, "BEE_SITES="+b.File("sites.yaml", "sites:\n  - {name: laptop, provider: local, oversubscribe: true}\n  - {name: lab, provider: local, hosts: 4, oversubscribe: true}\n"))
	image, err := os.ReadFile(testkit.Busybox(t, v1.Config{Env: []string{"PATH=/bin:/usr/bin"}}))
	if err != nil {
		t.Fatal(err)
	}
	b.File("mdtools.tar", string(image))
	b.File("study.yaml", `name: melt
image: docker-archive:mdtools.tar
array: {cases: {temperature: [300, 320, 340, 360], seed: {from: 1, to: 6}}}
metrics: {energy: 'Energy = (\S+)'}
run: |
  awk -v t=${case.temperature} -v s=${case.seed} 'BEGIN { printf "Energy = %.2f\n", -1240 + t * 0.8 + s % 3 }'
  test $BEE_CASE != 17
`)
	b.File("job.yaml", `name: lysozyme
image: docker-archive:mdtools.tar
workdir: /work
progress: {match: 'step (\d+) of (\d+)'}
metrics: {energy: 'Energy = (\S+)'}
run: |
  for n in $(seq 60); do
    echo "step $n of 80"
    awk -v n=$n 'BEGIN { printf "Energy = %.2f\n", -1240 + 240 / n }'
    sleep 0.1
  done
  echo energies > lysozyme.edr
  until [ -e done ]; do sleep 0.1; done
outputs: [{from: "/work/*.edr", to: ./results}]
`)
	array := strings.TrimSpace(b.Must("run", "-d", "study.yaml"))
	b.Try("wait", array) // one case fails
	id := strings.TrimSpace(b.Must("run", "-d", "job.yaml"))
	p := servePages(t, b)
	page := browse(t)
	page.visit(p.address)
	page.shows("lysozyme", "running", "75 %")
	page.visit(p.base() + "/#/?all=1")
	page.shows("lysozyme", "melt")
	page.picture("runs")
	page.visit(p.base() + "/#/runs/" + id)
	page.shows("The run computes.", "step 60 of 80", "Metric energy", "Cores in use")
	page.picture("run")
	page.visit(p.base() + "/#/arrays/melt?by=temperature,seed&metric=energy")
	page.shows("Metric energy", "-998")
	page.picture("array")
	page.visit(p.base() + "/#/runs/" + caseID(b, array, 1))
	page.shows("or name of another run")
	evaluate[chromedp.Void](page, `document.querySelector('input[name=with]').value = '`+caseID(b, array, 17)+`'; document.querySelector('form[aria-label=Compare]').requestSubmit()`)
	page.shows("job: run", "metric: energy")
	page.picture("compare")
	page.visit(p.base() + "/#/sites")
	page.shows("laptop", "lab")
	page.picture("sites")
	b.Touch(id, "/work/done")
	b.Must("wait", id)
	if found, err := filepath.Glob(filepath.Join(os.Getenv("BEE_TEST_PICTURES"), "*-1280.png")); err != nil || len(found) < 10 {
		t.Errorf("pictures: %q, %v", found, err)
	}
}
