package recipes

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	"github.com/bee-hpc/bee/internal/testkit"
)

var recipes = []recipe{
	{
		page: "how-to/secrets.md", where: "this machine",
		check: func(s *stage) {
			if record := s.bee.Must("show", "--json", "download") + s.bee.Must("show", "--beefile", "download"); strings.Contains(record, strings.TrimSpace(s.bee.Read("token"))) {
				s.Errorf("the record has the token:\n%s", record)
			}
		},
	},
	{
		page: "how-to/progress.md", where: "this machine", inPlace: "a loop for a simulation; what GROMACS, LAMMPS, OpenFOAM and Quantum ESPRESSO have printed",
		missing: "NAMD, whose rules are written after its manual, and newer versions",
		check: func(s *stage) {
			if csv := s.bee.Read("model.csv"); !strings.Contains(csv, "energy") || !strings.Contains(csv, "-10.4") {
				s.Errorf("the points are %q", csv)
			}
			if page := s.bee.Read("model.html"); !strings.Contains(page, "<svg") {
				s.Error("the page has no curve")
			}
		},
	},
	{
		page: "how-to/web-data.md", where: "this machine", inPlace: "a web server of this machine for the archive",
		missing: "public archives",
		prepare: func(s *stage) {
			const data = "time,t2m\n0,271.2\n6,270.9\n"
			s.bee.File("t2m.csv", data)
			server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(data)) }))
			s.Cleanup(server.Close)
			certificate := filepath.Join(s.bee.Dir, "ca.pem")
			if err := os.WriteFile(certificate, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
				s.Fatal(err)
			}
			s.bee.Env = append(s.bee.Env, "SSL_CERT_FILE="+certificate)
			s.replace = []string{"https://data.example.org", server.URL}
		},
	},
	{
		page: "how-to/failed-job.md", where: "this machine",
		codes:  map[string]int{"bee wait solve": 1, "bee run --again solve -e DEBUG=1": 1},
		before: map[string]func(s *stage){"bee exec look -- ls /work": begun("look", "/work/out.log")},
		skip:   map[string]string{"bee exec -it look -- sh": "it waits for words of a terminal: TestTerminal of test/e2e types them"},
	},
	{
		page: "how-to/disk-space.md", where: "this machine",
		// A trial of podman would leave files of other users in the home directory.
		prepare: func(s *stage) { s.bee.Env = append(s.bee.Env, "PATH="+filepath.Join(s.bee.Dir, "bin")) },
	},
	{
		page: "tutorial/first-run.md", where: "this machine",
		prepare: func(s *stage) {
			s.bee.Env = append(s.bee.Env, "PATH="+filepath.Join(s.bee.Dir, "bin")+":"+s.tools("cat"))
		},
	},
	{
		page: "how-to/pipelines.md", where: "this machine",
	},
	{
		page: "how-to/repeat.md", long: true, where: "four emulated hosts of this machine", inPlace: "a script for the program",
		prepare: func(s *stage) {
			s.sites("sites: [{name: lab, provider: local, hosts: 4, oversubscribe: true}]\n")
			s.bee.File("pi/job.yaml", "name: pi\nimage: docker.io/you/app:1.0\nrun: model $STEPS\nenv: {STEPS: 10}\n")
		},
		before: map[string]func(s *stage){"bee show pi": func(s *stage) { s.bee.Must("run", "pi/job.yaml") }},
	},
	{
		page: "how-to/report.md", where: "this machine", inPlace: "scripts for the programs",
		missing: "the summary on a page of GitHub",
		prepare: func(s *stage) {
			s.bee.Env = append(s.bee.Env, "GITHUB_STEP_SUMMARY="+filepath.Join(s.bee.Dir, "summary"))
			s.bee.File("job.yaml", "image: docker.io/you/app:1.0\nrun: model 1\n")
		},
		before: map[string]func(s *stage){"bee report lysozyme -o lysozyme.html": func(s *stage) {
			for _, name := range []string{"lysozyme", "lysozyme-2", "nightly"} {
				s.bee.Must("run", "-q", "--name", name, "job.yaml")
			}
		}},
		check: func(s *stage) {
			for file, want := range map[string]string{"lysozyme.html": "lysozyme", "results/junit.xml": "<testcase", "results/summary.md": "succeeded", "../summary": "nightly"} {
				if !strings.Contains(s.bee.Read(file), want) {
					s.Errorf("%s has no %q", file, want)
				}
			}
		},
	},
	{
		page: "how-to/mounts.md", where: "two sites of this machine", inPlace: "directories of this machine for those of clusters",
		prepare: func(s *stage) {
			for _, dir := range []string{"era5", "disk/era5", "scratch-of-ann/results"} {
				s.bee.File("../"+dir+"/2025.csv", "b,2\na,1\n")
			}
			s.bee.Env = append(s.bee.Env, "SCRATCH="+filepath.Join(s.bee.Dir, "scratch-of-ann"))
			s.replace = []string{
				"/project/era5", filepath.Join(s.bee.Dir, "era5"), "/data/x", filepath.Join(s.bee.Dir, "disk"),
				"provider: slurm\n    login: ann@login.example.org", "provider: local", "provider: ssh\n    hosts: [n1, n2]", "provider: local",
			}
		},
		check: func(s *stage) {
			if got := s.bee.Read("results/lines"); got != "2\n" {
				s.Errorf("the job has counted %q", got)
			}
			if got := s.bee.Read("../scratch-of-ann/results/sorted.csv"); got != "a,1\nb,2\n" {
				s.Errorf("the job has written %q", got)
			}
		},
	},
	{
		page: "how-to/arrays.md", long: true, before: map[string]func(s *stage){
			"bee move long --site rack": func(s *stage) {
				begun("long.1", "/work/begun")(s)
				begun("long.2", "/work/begun")(s)
			},
			"bee run -d --again model": func(s *stage) { s.bee.Must("wait", "model") },
			"bee retry -d model":       func(s *stage) { s.bee.Must("stop", "model") },
			"bee logs short.7":         over("short.7"),
		},
		skip: map[string]string{"bee move short.packs.1": "its cases end at once: TestPack of test/e2e moves a pack"},
		check: func(s *stage) {
			for _, array := range []string{"model", "short"} {
				s.bee.Try("stop", array) // which may be over
				s.bee.Try("wait", array)
			}
			if got := s.bee.Read("long/2/state"); got != "2\n" {
				s.Errorf("a case that was moved has %q", got)
			}
			if rows := strings.Count(s.bee.Read("table.csv"), "\n"); rows != 100 {
				s.Errorf("the table has %d lines for 99 cases", rows)
			}
		},
		where: "two sites of this machine", inPlace: "a script for the program",
		prepare: func(s *stage) {
			s.sites("sites: [{name: local, provider: local, oversubscribe: true}, {name: rack, provider: local, oversubscribe: true}]\n")
			s.replace = []string{"to: 1000}}, pack: 100", "to: 40}}, pack: 20"}
		},
	},
	{
		page: "how-to/try-first.md", long: true, where: "Slurm with two nodes, and two emulated hosts", inPlace: "a script for the program",
		missing: "a cluster with a queue that is full",
		prepare: func(s *stage) {
			s.slurm(2)
			s.bee.File("case.in", "mesh\n")
		},
	},
	{
		page: "how-to/several-clusters.md", long: true, where: "two partitions of one Slurm", inPlace: "partitions for clusters",
		missing: "two clusters, and forecasts of their queues",
		prepare: func(s *stage) {
			farm := s.slurm(1)
			s.replace = append(s.replace,
				"login: ann@north.example.org, scratch: /scratch/$USER", slurmKeys(farm), "login: ann@south.example.org, scratch: /scratch/$USER", slurmKeys(farm)+", slurm: {partition: low}")
		},
		check: func(s *stage) {
			if got := s.bee.Read("results/where"); got != "h1\n" {
				s.Errorf("it ran on %q", got)
			}
		},
	},
	{
		page: "how-to/scaling.md", long: true, real: true, where: "two emulated hosts, with Debian's Open MPI",
		missing: "a network between real machines",
		prepare: func(s *stage) {
			testkit.RequireTool(s, "mmdebstrap")
			s.sites("sites: [{name: lab, provider: local, hosts: 2, oversubscribe: true}]\n")
		},
		check: func(s *stage) {
			rows := strings.Split(strings.TrimSpace(s.bee.Read("scaling.csv")), "\n")
			if len(rows) != 3 || !strings.Contains(rows[0], "metric.seconds") || strings.HasSuffix(rows[1], ",") || strings.HasSuffix(rows[2], ",") {
				s.Errorf("the table is\n%s", strings.Join(rows, "\n"))
			}
			if !strings.Contains(s.bee.Read("scaling.html"), "<svg") {
				s.Error("the page has no plot")
			}
		},
	},
	{
		page: "how-to/threads.md", long: true, real: true, where: "two emulated hosts, with Debian's Open MPI", inPlace: "two cores for four",
		missing: "binding to cores on a machine with more than two",
		prepare: func(s *stage) {
			testkit.RequireTool(s, "mmdebstrap")
			s.sites("sites: [{name: lab, provider: local, hosts: 2, oversubscribe: true}]\n")
			s.replace = []string{"cores: 4", "cores: 2"}
		},
	},
	{
		page: "how-to/jupyter.md", long: true, where: "Slurm with a node", inPlace: "a web server for Jupyter, one core for four",
		missing: "Jupyter itself on a cluster",
		prepare: func(s *stage) {
			s.slurm(1)
			s.sites("sites: [{name: cluster, provider: slurm, " + slurmKeys(s.farm) + ", slot: 4h}]\n")
			s.bee.File("old.ipynb", "{}\n")
			s.replace = append(s.replace, "quay.io/jupyter/scipy-notebook:latest", images[0], "cores: 4", "cores: 1", "memory: 16G", "memory: 1G")
			s.port = s.freePort()
			s.replace = append(s.replace, "forward notebook 8888", "forward notebook "+s.port+":8888")
		},
		background: []string{"bee logs -f notebook", "bee forward notebook 8888"},
		before: map[string]func(s *stage){
			"bee forward notebook 8888": begun("notebook", "/work/new.ipynb"),
			"bee stop notebook":         func(s *stage) { s.get("http://127.0.0.1:"+s.port+"/old.ipynb", "{}\n") },
		},
		check: func(s *stage) {
			over("notebook")(s)
			if got := s.bee.Read("notebooks/new.ipynb"); got != "{}\n" {
				s.Errorf("the notebook has %q", got)
			}
		},
	},
	{
		page: "how-to/slurm.md", long: true, where: "Slurm with two nodes", inPlace: "a script for the program, two cores for eight",
		missing: "a real cluster",
		prepare: func(s *stage) {
			s.slurm(2)
			s.bee.Env = append(s.bee.Env, "PATH="+s.farm.Bin+":"+filepath.Join(s.bee.Dir, "bin")) // without podman, as for disk-space.md
			s.replace = append(s.replace, "login: ann@login.hpc.example.org\n    scratch: /scratch/$USER", "login: "+s.farm.Names[0]+"\n    scratch: "+filepath.Join(s.farm.Dir, "scratch"),
				"slurm: {partition: batch, account: phys0815}", "slurm: {partition: main}", "--cores 8 --memory 16G", "--cores 2 --memory 1G")
			s.bee.File("job.yaml", "image: docker.io/you/app:1.0\nrun: model 1\noutputs: [out.dat]\n")
		},
		skip: map[string]string{
			"salloc --nodes=2 --exclusive bee run job.yaml": "it runs on the login node: tests of test/e2e about allocations have it",
			"bee resume RUN":        "it continues a run of an allocation: likewise",
			"bee logs --follow RUN": "likewise",
		},
	},
	{
		page: "how-to/running-job.md", long: true, where: "two emulated hosts", inPlace: "a web server for Jupyter",
		missing: "Jupyter itself",
		prepare: func(s *stage) {
			s.sites("sites: [{name: lab, provider: local, hosts: 2, oversubscribe: true}]\n")
			s.bee.File("input.dat", "1\n")
			s.bee.Must("run", "-d", "--name", "md", "-n", "2", images[0], "sh", "-c", "echo log > run.log; mkdir results; echo core > /tmp/of-the-job; /.bee/rsh lab-1 'echo core > /tmp/core'; echo > begun; exec sleep 1000")
			begun("md", "/work/begun")(s)
			s.port = s.freePort()
			s.replace = []string{"quay.io/jupyter/scipy-notebook:latest", images[0], "jupyter lab", "sh -c 'cp /bin/sh old.ipynb; exec jupyter' jupyter", "forward notebook 8888", "forward notebook " + s.port + ":8888"}
		},
		background: []string{"bee forward notebook 8888", "bee stats", "bee ps --watch"},
		before: map[string]func(s *stage){
			"bee logs notebook": begun("notebook", "/work/new.ipynb"),
			"bee stats":         func(s *stage) { s.get("http://127.0.0.1:"+s.port+"/", "") },
		},
		check: func(s *stage) {
			if log, core := s.bee.Read("run.log"), s.bee.Read("here"); log != "log\n" || core != "core\n" {
				s.Errorf("copied are %q and %q", log, core)
			}
			if got := s.bee.Must("exec", "md", "--", "cat", "/work/input.dat"); got != "1\n" {
				s.Errorf("the job has %q", got)
			}
			s.bee.Must("stop", "md", "notebook")
			over("md")(s)
			over("notebook")(s)
		},
	},
	{
		page: "how-to/dockerfile.md", long: true, where: "this machine, by buildah", inPlace: "a small image for Debian, a script for the program",
		missing: "packages of Debian and a compiler in the build",
		prepare: func(s *stage) {
			testkit.RequireTool(s, "buildah")
			s.bee.Env = append(s.bee.Env, "BUILDAH_ISOLATION=chroot") // crun refuses hybrid control groups
			s.bee.File("solver.c", "echo solved\n")
			s.replace = []string{
				"apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev libopenmpi-dev openmpi-bin", "true",
				"mpicc -O2 -o /usr/local/bin/solver /src/solver.c", "(echo '#!/bin/sh'; cat /src/solver.c) > /usr/bin/solver && chmod 755 /usr/bin/solver", `["mpirun", "solver"]`, `["solver"]`,
			}
		},
		check: func(s *stage) {
			if out := s.bee.Must("logs", "work"); !strings.HasSuffix(out, "solved\n") {
				s.Errorf("it printed %q", out)
			}
		},
	},
	{
		page: "how-to/data-images.md", where: "this machine",
		prepare: func(s *stage) {
			s.bee.File("inputs/a.log", "a\n")
			s.bee.File("inputs/b.dat", "b\n")
			s.replace = []string{"50G", "64M"}
		},
		check: func(s *stage) {
			if s.bee.Read("results/b.dat") != "b\n" || s.bee.Read("logs/a.log") != "a\n" {
				s.Error("the files are others")
			}
		},
	},
	{page: "how-to/private-registry.md", by: "test/e2e TestAPrivateRegistry", where: "this machine", inPlace: "Debian's registry, with a password", missing: "registries of clouds and their helpers"},
	{page: "how-to/month-long.md", by: "test/e2e TestAMonthOfSlots", where: "two sites of this machine", inPlace: "a script, and slots of seconds", missing: "a month, and GROMACS over it"},
	{page: "how-to/checkpoints.md", by: "test/e2e TestStepsOfAProgramThatCannotSaveItself", where: "this machine, and with GROMACS and LAMMPS Slurm and ssh hosts", inPlace: "a script for a program without checkpoints"},
	{page: "how-to/restart-files.md", by: "test/e2e TestACodeWithRestartFilesOfItsOwn", where: "this machine", inPlace: "a script that writes such files", missing: "VPIC itself"},
	{page: "how-to/ci.md", by: "test/ci TestGitHub", where: "a host behind ssh", inPlace: "the steps' own commands, and gitlab-ci-local", missing: "the services themselves, and Jenkins"},
	{page: "how-to/python.md", by: "test/python TestClient", where: "this machine"},
	{page: "how-to/workflow-engines.md", by: "test/python TestEngines", where: "two emulated hosts, with the real engines"},
	{page: "how-to/gpus-and-infiniband.md", by: "test/e2e TestAGPUsDeviceAndLibrariesAreInTheContainer", where: "this machine", inPlace: "another device, by a CDI specification", missing: "any GPU"},
	{page: "tutorial/mpi.md", by: "test/e2e TestTheMPITutorial", where: "two emulated hosts"},
	{page: "tutorial/checkpoint.md", by: "test/e2e TestTheMPILoopOfTheDocumentMoves", where: "two sites of this machine"},
}
