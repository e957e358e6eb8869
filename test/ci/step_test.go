package ci

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/report/page"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/testkit/sshfarm"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// script is the step of all CI services.
func script(t *testing.T) string {
	t.Helper()
	return filepath.Join(testkit.Root(t), "ci", "bee.sh")
}

func read(t *testing.T, names ...string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(append([]string{testkit.Root(t)}, names...)...))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// variables are those of the step.
var variables = regexp.MustCompile(`BEE_CI_[A-Z_]+`)

// TestOneStep: GitLab and Jenkins, which fetch single files, have copies of the step; each
// service sets all of its variables.
func TestOneStep(t *testing.T) {
	step := read(t, "ci", "bee.sh")
	indented := regexp.MustCompile(`(?m)^(.)`).ReplaceAllString(step, "      $1")
	for _, file := range []string{"run.yml", "ticket.yml"} {
		if !strings.Contains(read(t, "ci", "gitlab", "templates", file), "    - |\n"+indented) {
			t.Errorf("the script in %s is not ci/bee.sh: copy it", file)
		}
	}
	if read(t, "ci", "jenkins", "resources", "bee.sh") != step {
		t.Error("the script of Jenkins is not ci/bee.sh: copy it")
	}
	for _, v := range variables.FindAllString(step, -1) {
		for _, file := range []string{"github/action.yml", "gitlab/templates/run.yml", "gitlab/templates/ticket.yml", "jenkins/vars/beeRun.groovy"} {
			if text := read(t, "ci", filepath.FromSlash(file)); v != "BEE_CI_RELEASES" && !strings.Contains(text, v+":") && !strings.Contains(text, v+"=") {
				t.Errorf("%s does not set %s", file, v)
			}
		}
	}
}

// step runs the step of a machine with variables in place of the defaults.
func runStep(t *testing.T, b *testkit.Bee, set ...string) (int, string) {
	t.Helper()
	env := []string{"BEE_CI_MODE=run", "BEE_CI_JOB=job.yaml", "BEE_CI_SITES=sites.yaml", "BEE_CI_IMAGE=", "BEE_CI_TICKET=run.ticket", "BEE_CI_KEY_VARIABLE=SECRET", "SECRET=" + key, "BEE_CI_RESULTS=results", "BEE_CI_BEE=" + testkit.Binary(t)}
	return execute(t, b, append(env, set...), "sh", script(t))
}

// TestJenkins runs the shell part of the step of Jenkins, in the order of the page: the values
// of the arguments that the page gives, and else the defaults of the step.
func TestJenkins(t *testing.T) {
	t.Parallel()
	groovy := read(t, "ci", "jenkins", "vars", "beeRun.groovy")
	defaults := map[string]string{}
	for _, m := range regexp.MustCompile(`(\w+): '([^']*)'`).FindAllStringSubmatch(groovy[strings.Index(groovy, "Map o = ["):strings.Index(groovy, "] + given")], -1) {
		defaults[m[1]] = m[2]
	}
	set := regexp.MustCompile(`"(BEE_CI_[A-Z_]+)=\$\{o\.(\w+)\}"`).FindAllStringSubmatch(groovy, -1)
	if len(set) != 8 || len(defaults) != 8 {
		t.Fatalf("the step sets %d variables of %d arguments", len(set), len(defaults))
	}
	pages := blocks(t, "groovy")
	if len(pages) != 2 {
		t.Fatalf("the page has %d pipelines", len(pages))
	}
	farm := sshfarm.Start(t, 1)
	archive := testkit.Busybox(t, v1.Config{Env: []string{"PATH=/bin"}})
	for _, page := range pages {
		var last *testkit.Bee
		for _, call := range regexp.MustCompile(`beeRun ([^}\n]*)`).FindAllStringSubmatch(page, -1) {
			given := map[string]string{}
			for _, m := range regexp.MustCompile(`(\w+): '([^']*)'`).FindAllStringSubmatch(call[1], -1) {
				if _, is := defaults[m[1]]; !is {
					t.Errorf("the step has no argument %s", m[1])
				}
				given[m[1]] = m[2]
			}
			given["bee"] = testkit.Binary(t)
			if given["image"] != "" {
				given["image"] = "docker-archive:" + archive
			}
			var env []string
			for _, m := range set {
				value, is := given[m[2]]
				if !is {
					value = defaults[m[2]]
				}
				env = append(env, m[1]+"="+value)
			}
			b := machine(t, farm)
			b.File("job.yaml", "name: nightly\nimage: other\nrun: 'echo steps 10; sleep 2; echo result >out.dat; exit 3'\noutputs: [{from: out.dat, to: ./results}]\n")
			if given["mode"] == "wait" {
				pass(t, last, b, "run.ticket")
			}
			ended, printed := execute(t, b, append(env, "BEE_TICKET_KEY="+key), "sh", script(t))
			if given["mode"] == "submit" {
				if ended != 0 {
					t.Fatalf("the run was not submitted: %d", ended)
				}
				last = b
				continue
			}
			if ended != code {
				t.Errorf("the step ended with %d", ended)
			}
			checkResults(t, b, printed)
		}
	}
}

// TestStep: the step installs a version, once, and hands the exit code and all arguments over.
func TestStep(t *testing.T) {
	t.Parallel()
	testkit.RequireTool(t, "curl")
	b := testkit.NewBee(t)
	var asked []string
	releases := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path)
		w.Write([]byte("[ $1 = --from ] && [ $3 = --prefix ] || exit 9\nmkdir -p $4/bin\nprintf '#!/bin/sh\\necho \"$BEE_TICKET_KEY $*\"\\nexit 7\\n' > $4/bin/bee\nchmod 755 $4/bin/bee\n"))
	}))
	defer releases.Close()
	version := []string{"BEE_CI_BEE=1.2.3", "BEE_CI_RELEASES=" + releases.URL}
	for _, one := range []struct {
		set  []string
		want string
	}{
		{[]string{"BEE_CI_IMAGE=oci:./dir"}, " --sites sites.yaml run --image oci:./dir --junit results/junit.xml --summary results/summary.md --dotenv results/run.env job.yaml\n"},
		{[]string{"BEE_CI_MODE=submit", "BEE_CI_JOB=a b.yaml"}, " --sites sites.yaml run -d --ticket run.ticket --junit results/junit.xml --summary results/summary.md --dotenv results/run.env a b.yaml\n"},
		{[]string{"BEE_CI_MODE=wait"}, " --sites sites.yaml wait -f --ticket run.ticket --junit results/junit.xml --summary results/summary.md --dotenv results/run.env\n"},
	} {
		if ended, printed := runStep(t, b, append(slices.Clone(version), one.set...)...); ended != 7 || printed != key+one.want {
			t.Errorf("%q: it ended with %d, and printed %q", one.set, ended, printed)
		}
	}
	if !slices.Equal(asked, []string{"/v1.2.3/install.sh"}) {
		t.Errorf("the step asked for %q", asked)
	}
}

// TestStepWithoutTicket: a run that was over before its ticket passes only if its results do.
func TestStepWithoutTicket(t *testing.T) {
	t.Parallel()
	b := testkit.NewBee(t)
	for outcome, want := range map[page.Outcome]int{page.Passed: 0, page.Failed: 1, page.Errored: 1} {
		var junit bytes.Buffer
		results := page.Results{Name: "nightly", Cases: []page.Result{{Outcome: page.Passed}, {Outcome: outcome, Name: ` failures="0" errors="0" `, Log: ` failures="0" errors="0" `}}}
		if err := results.JUnit(&junit); err != nil {
			t.Fatal(err)
		}
		b.File("results/junit.xml", junit.String())
		if ended, _ := runStep(t, b, "BEE_CI_MODE=wait"); ended != want {
			t.Errorf("%v: it ended with %d, expected %d", outcome, ended, want)
		}
	}
	b.File("results/junit.xml", "cut")
	if ended, _ := runStep(t, b, "BEE_CI_MODE=wait"); ended != 1 {
		t.Errorf("of results that are cut: %d", ended)
	}
}
