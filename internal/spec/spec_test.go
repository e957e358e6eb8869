package spec

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
)

func TestGoodBeefile(t *testing.T) {
	j, err := ParseJob("/home/ann/job.yaml", []byte(`
name: lysozyme
image: docker.io/gromacs/gromacs:2025.1
nodes: 2
ranks_per_node: 4
env: {OMP_NUM_THREADS: 1, DEBUG: true}
inputs: [{from: ./input, to: /work}]
setup: gmx grompp
run: [mpirun, gmx_mpi, mdrun]
outputs: [{from: /work/md.*, to: ./results}]
secrets: {TOKEN: {env: MY_TOKEN}}
gpus: all
timeout: 1h30m
entrypoint: []
sites: [laptop, lab]
`), "/home/ann")
	if err != nil {
		t.Fatal(err)
	}
	want := &Job{
		Name: "lysozyme", Image: "docker.io/gromacs/gromacs:2025.1", Nodes: 2, RanksPerNode: 4,
		Env: map[string]string{"OMP_NUM_THREADS": "1", "DEBUG": "true"}, Secrets: map[string]Secret{"TOKEN": {Env: "MY_TOKEN"}},
		Inputs: []Input{{From: "/home/ann/input", To: "/work"}}, Volume: Volume{Path: "/work"}, Entrypoint: &Command{Argv: []string{}},
		Setup: &Command{Shell: "gmx grompp"}, Run: &Command{Argv: []string{"mpirun", "gmx_mpi", "mdrun"}},
		Outputs: []Output{{From: "/work/md.*", To: "/home/ann/results"}}, GPUs: AllGPUs, Timeout: 90 * time.Minute, Sites: []string{"laptop", "lab"}, Dir: "/home/ann",
	}
	if !reflect.DeepEqual(j, want) {
		t.Errorf("got  %+v\nwant %+v", j, want)
	}
}

func TestAnchorsAndBuildForms(t *testing.T) {
	j, err := ParseJob("x.yaml", []byte("build: &b {debian: bookworm, packages: [hpcc]}\nrun: 'true'\nenv: &e {A: x}\n"), "/d")
	if err != nil || j.Build.Debian != "bookworm" || j.Name != "x" || j.Env["A"] != "x" {
		t.Errorf("got %+v, %v", j, err)
	}
	j, err = ParseJob("x.yaml", []byte("build: ./app\nrun: 'true'\n"), "/d")
	if err != nil || j.Build.Context != "/d/app" {
		t.Errorf("got %+v, %v", j.Build, err)
	}
}

func TestMergeKeys(t *testing.T) {
	j, err := ParseJob("x.yaml", []byte("x-args: &a {B: 2, C: 2}\nbuild: {debian: bookworm, env: &b {A: 1, B: 1}}\nenv: {C: 3, <<: [*b, *a]}\nsecrets: {S: &s {env: X}, T: {<<: *s}}\n"), "/d")
	if err != nil {
		t.Fatal(err)
	}
	if want := map[string]string{"A": "1", "B": "1", "C": "3"}; !reflect.DeepEqual(j.Env, want) || j.Secrets["T"].Env != "X" {
		t.Errorf("got %v, %v", j.Env, j.Secrets)
	}
	// The last value before an alias counts, and none may go round.
	j, err = ParseJob("x.yaml", []byte("image: &i one\nname: *i\nworkdir: &i /two\nvolume: *i\n"), "/d")
	if err != nil || j.Name != "one" || j.Volume.Path != "/two" {
		t.Errorf("got %+v, %v", j, err)
	}
	// Keys of the user's own may hold what is merged; elsewhere there are none.
	j, err = ParseJob("x.yaml", []byte("x-common: {env: &e {A: x}, other: 1}\nimage: i\nenv: *e\n"), "/d")
	if err != nil || j.Env["A"] != "x" {
		t.Errorf("got %+v, %v", j, err)
	}
	if _, err = ParseJob("x.yaml", []byte("image: i\nenv: &e {A: x, <<: *e}\n"), "/d"); err == nil || !strings.Contains(err.Error(), "merged into each other") {
		t.Errorf("got %v", err)
	}
}

// bad lists Beefiles with all that is wrong with each, in order of lines.
func bad() map[string]struct {
	text string
	says []string
} {
	type c = struct {
		text string
		says []string
	}
	return map[string]c{
		"unknown key with a near one":  {"image: a\nnodez: 2\n", []string{`2:1: unknown key "nodez" (did you mean "nodes"?)`}},
		"several at once":              {"image: a\nnodez: 2\nranks_per_node: many\ngpus: some\n", []string{`2:1: unknown key`, `3:17: ranks_per_node: a whole number is wanted, this is text`, `4:7: gpus: "some" is neither`}},
		"wrong type of list":           {"image: a\noutputs: /work/x\n", []string{`2:10: outputs: a list is wanted, this is text`}},
		"key of the user's own inside": {"image: a\ninputs: [{x-y: 1, from: ./x, to: /work}]\n", []string{`2:11: unknown key "inputs[0].x-y"`}},
		"shortened keys":               {"img: a\nenvironment: {A: b}\nvm: {mem: 4G}\n", []string{`1:1: unknown key "img" (did you mean "image"?)`, `2:1: unknown key "environment" (did you mean "env"?)`, `3:6: unknown key "vm.mem" (did you mean "memory"?)`}},
		"a word that is empty":         {"image: a\nruntime: ''\nplatform: ''\n", []string{`2:10: runtime: "" is not known`, `3:11: platform: "" is no platform`}},
		"no UTF-8":                     {"image: a\nname: n\xfc\n", []string{`2:8: this is not text in UTF-8`}},
		"a mark of UTF-8":              {"\ufeffimage: a\nnodez: 1\n", []string{`2:1: unknown key "nodez"`}},
		"unknown key inside":           {"image: a\ninputs: [{form: ./x, to: /work}]\n", []string{`2:11: unknown key "inputs[0].form" (did you mean "from"?)`}},
		"twice": {
			"image: a\nenv: {A: 1, A: 2}\nnodes: 1\nnodes: 2\nretry: many\nuser: ann\n",
			[]string{`2:13: key "env.A" is given twice`, `4:1: key "nodes" is given twice`, "5:8: retry: a whole number", "6:7: user:"},
		},
		"twice in what is merged": {
			"image: a\nx-common: &c {A: 1, A: 2}\nenv: {<<: *c, <<: *c}\n",
			[]string{`2:21: key "env.<<.A" is given twice`, `3:15: key "env.<<" is given twice`},
		},
		"twice, the first value checked": {
			"image: a\nnodes: 0\nnodes: 2\nnodes: many\nvm: {cpus: -1}\nvm: {cpus: 1}\n",
			[]string{"2:8: nodes: 0 cannot be", `3:1: key "nodes" is given twice`, `4:1: key "nodes" is given twice`, "5:12: vm.cpus: -1 cannot be", `6:1: key "vm" is given twice`},
		},
		"keys that cannot be, and values": {
			"image: a\nbuild: .\nresume: x\nenv: {1A: x}\nvm:\n  image: b\n  packages: [c]\noutputs:\n- to: x\nvolume:\n  path:\n    a: b\n",
			[]string{
				"2:1: `image:` and `build:` exclude", "3:1: resume: without `checkpoint:`", `4:7: env: "1A" is no name`, "7:3: vm.packages are for a guest", "9:3: outputs[0]: `from` is needed", "12:5: volume.path: text is wanted",
			},
		},
		"no image":                  {"run: x\n", []string{"1:1: neither `image:` nor `build:`"}},
		"both":                      {"image: a\nbuild: .\n", []string{"2:1: `image:` and `build:` exclude"}},
		"impossible number":         {"image: a\nnodes: 0\n", []string{"2:8: nodes: 0 cannot be (from 1 to 100000)"}},
		"output outside the volume": {"image: a\noutputs: [{from: /tmp/x, to: .}]\n", []string{"lies outside the volume /work"}},
		"relative volume":           {"image: a\nvolume: work\n", []string{"2:9: volume:"}},
		"root as volume":            {"image: a\nvolume: /\n", []string{"2:9: volume:"}},
		"bad variable":              {"image: a\nenv: {1A: x}\n", []string{"is no name of a variable"}},
		"secret of two sources":     {"image: a\nsecrets: {T: {env: A, file: b}}\n", []string{"exactly one of"}},
		"secret that is a variable": {"image: a\nenv: {T: x}\nsecrets: {T: {env: A}}\n", []string{"3:11: secrets.T: `env:` gives this variable, too"}},
		"bad runtime":               {"image: a\nruntime: dokcer\n", []string{`did you mean "docker"?`}},
		"bad duration":              {"image: a\ntimeout: soon\n", []string{`"soon" is no duration`}},
		"negative duration":         {"image: a\ntimeout: -5s\n", []string{`is no duration`}},
		"two documents":             {"image: a\n---\nimage: b\n", []string{"a second document begins here"}},
		"not a mapping":             {"- a\n", []string{"a mapping of keys is wanted here, this is a list"}},
		"empty":                     {"", []string{"the file is empty"}},
		"not YAML":                  {"image: [a\n", []string{"not valid YAML"}},
		"a path for an output":      {"image: a\noutputs: [[/work/x]]\ninputs: [./a]\nenv: [A=1]\n", []string{"(such as {from: /work/*.dat, to: ./results})", "(such as {from: ./input, to: /work})", "(such as {KEY: value})"}},
		"a tab":                     {"image: a\nenv:\n\tA: x\n", []string{"3:1: a tab begins this line: YAML wants spaces there"}},
		"a tab in a block":          {"image: a\nrun: |\n  if true; then\n\techo a\n  fi\n", []string{"4:1: a tab begins this line: YAML wants spaces there"}},
		"missing value":             {"image:\n", []string{"image: a value is missing"}},
		"empty command":             {"image: a\nrun: ''\n", []string{"2:6: run: the command is empty (leave it out, or give a command)"}},
		"commands of no words": {
			"image: a\nsetup: []\nrun: []\nresume: []\ncheckpoint: {command: []}\nentrypoint: []\n",
			[]string{"2:8: setup: the command is empty (leave it out, or give a command)", "3:6: run: the", "4:9: resume: the", "5:23: checkpoint.command: the"},
		},
		"types and values at once": {
			"image: a\nnodes: 0\nretry: many\nuser: ann\nenv: {1A: x}\n",
			[]string{"2:8: nodes: 0 cannot be (from 1 to 100000)", "3:8: retry: a whole number", "4:7: user:", `5:7: env: "1A"`},
		},
		"too large":                    {"image: a\nnodes: 99999999999999999999\nretry: 9223372036854775808\nranks_per_node: 1000000000\n", []string{"2:8: nodes: 99999999999999999999 is too large", "3:8: retry: 9223372036854775808 is too large", "4:17: ranks_per_node: 1000000000 cannot be"}},
		"digits as text":               {"image: a\nnodes: '99999999999999999999'\n", []string{"2:8: nodes: a whole number is wanted, this is text"}},
		"platform of no container":     {"image: a\nplatform: foo/bar\n", []string{`2:11: platform: "foo/bar" is no platform`}},
		"unknown architecture":         {"image: a\nplatform: linux/amd46\n", []string{`2:11: platform: "amd46" is no architecture of images (did you mean "linux/amd64"?)`}},
		"timeout of nothing":           {"image: a\ntimeout: 0s\n", []string{"2:10: timeout: it cannot be nothing (leave it out for no limit)"}},
		"grace of nothing":             {"image: a\ncheckpoint: {grace: 0s}\n", []string{"2:21: checkpoint.grace: it cannot be nothing (leave it out for the default)"}},
		"no CIDR":                      {"image: a\nnetwork: 10.1.0.0/33\n", []string{`2:10: network: "10.1.0.0/33" is no range of addresses`}},
		"an address":                   {"image: a\nnetwork: 10.1.0.7\n", []string{`is a single address`}},
		"no interface":                 {"image: a\nnetwork: the fast one\n", []string{`is no name of an interface`}},
		"no false error on the image":  {"imag: a\nnodes: 0\n", []string{"1:1: unknown key", "2:8: nodes: 0"}},
		"no false error on volumes":    {"image: a\nvolume: [x]\noutputs: [{from: /v/x, to: .}]\nnodes: 0\n", []string{"2:9: volume: text is wanted", "4:8: nodes: 0"}},
		"no false error on outputs":    {"image: a\nvolume: v\noutputs: [{from: /v/x, to: .}]\n", []string{"2:9: volume:"}},
		"no false error on secrets":    {"image: a\nsecrets: {T: {file: [x]}, U: {}}\n", []string{"2:21: secrets.T.file: text is wanted", "2:30: secrets.U: give exactly one"}},
		"no false error on inputs":     {"image: a\ninputs: [{form: x, to: /work}, {from: x}]\n", []string{"2:11: unknown key", "inputs[1]: both `from` and `to` are needed"}},
		"no false error on checkpoint": {"image: a\nresume: x\ncheckpont: {grace: 1s}\nnodes: 0\n", []string{"3:1: unknown key", "4:8: nodes: 0"}},
		"value beside an unknown key":  {"image: a\ninputs: [{frm: x, to: work}, {frm: x, to: /proc}]\noutputs: [{from: /y, too: z}]\n", []string{`2:11: unknown key "inputs[0].frm"`, `2:23: inputs[0].to: "work" is no absolute path`, "2:31: unknown key", "2:43: inputs[1].to: /proc is not the job's own", "3:22: unknown key"}},
		"no such anchor":               {"image: *none\nnodes: 0\n", []string{"1:8: no anchor has this name", "2:8: nodes: 0"}},
		"anchor below an unknown key":  {"common: &c {A: x}\nimage: a\nenv: *c\n", []string{`1:1: unknown key "common"`}},
		"merge of a list":              {"image: a\nenv: {<<: 5, B: y}\n", []string{"env.<<: a mapping of keys is wanted here, this is a number"}},
		"image with a blank":           {"image: foo bar\n", []string{`1:8: image: "foo bar" is no name of an image (such as docker.io/library/debian:12)`}},
		"image in capitals":            {"image: UPPER/x\n", []string{`1:8: image: "UPPER/x" is no name of an image`}},
		"image of no registry":         {"image: other://debian\n", []string{`1:8: image: "other:" is no name of a registry`}},
		"image by https":               {"image: https://docker.io/x\n", []string{"1:8: image: \"https://docker.io/x\" is an address of the web (leave out https://"}},
		"image of a library":           {"image: library://a/b/c:1\n", []string{"is an image of Apptainer's library (pull it"}},
		"image of a hub":               {"image: shub://a/b\n", []string{"Singularity Hub"}},
		"image in no SIF file":         {"image: 'sif:'\n", []string{`1:8: image: a path is wanted after the colon`}},
		"image by a SIF's address":     {"image: sif://app.sif\n", []string{"write sif:FILE, without //"}},
		"image in a SIF's registry":    {"image: oras://ghcr.io/x\n", []string{"is a SIF file in a registry"}},
		"image in podman's storage":    {"image: containers-storage:x\n", []string{"is an image of podman's storage (write podman:NAME)"}},
		"image in skopeo's directory":  {"image: dir:./x\n", []string{"is a directory of skopeo's (copy it"}},
		"guest image by https":         {"image: a\nvm: {image: 'https://x/y'}\n", []string{"2:13: vm.image: \"https://x/y\" is an address of the web"}},
		"image of a bad tag":           {"image: debian:1+2\n", []string{`1:8: image: "1+2" is no tag of an image`}},
		"image of a bad digest":        {"image: a@sha256:12\n", []string{`1:8: image: "sha256:12" is no digest`}},
		"image of no id":               {"image: sha256:zz\n", []string{`1:8: image: "sha256:zz" is no id of an image`}},
		"image of no path":             {"image: 'oci:'\n", []string{`1:8: image: a path is wanted after the colon`}},
		"guest image of no name":       {"image: a\nvm: {image: A b}\n", []string{`2:13: vm.image: "A b" is no name of an image`}},
		"suite of no name":             {"build: {debian: bad suite;rm}\n", []string{`1:17: build.debian: "bad suite;rm" is no name of a suite`}},
		"snapshot of no date":          {"build: {debian: bookworm, snapshot: yesterday}\n", []string{`1:37: build.snapshot: "yesterday" is no date (such as 20250520T000000Z)`}},
		"packages of no name":          {"build: {debian: bookworm, packages: [-x, a b]}\nvm: {packages: ['']}\n", []string{`1:38: build.packages[0]: "-x" is no name`, `1:42: build.packages[1]: "a b" is no name`, `2:17: vm.packages[0]: "" is no name`}},
		"Dockerfile beside Debian":     {"build: {debian: bookworm, dockerfile: x, args: {A: b}}\n", []string{"1:27: build.dockerfile: only a build by a Dockerfile has it", "1:42: build.args: only"}},
		"packages in a Dockerfile":     {"build: {context: ., packages: [x], run: [x]}\n", []string{"1:21: build.packages: only a build of Debian packages has it", "1:36: build.run: only"}},
		"unknown builder":              {"build: {context: ., builder: kaniko}\n", []string{`1:30: build.builder: "kaniko" is not known (one of buildah, podman, docker, vm)`}},
		"builder of packages":          {"build: {debian: bookworm, builder: vm}\n", []string{"1:27: build.builder: only a build by a Dockerfile has it"}},
		"input for all there is":       {"image: a\ninputs: [{from: x, to: /}]\n", []string{"2:24: inputs[0].to: all of the container cannot be replaced"}},
		"input for the kernel's":       {"image: a\ninputs: [{from: x, to: /proc/x}, {from: x, to: /a/../dev}]\n", []string{"2:24: inputs[0].to: /proc/x is not the job's own: the container has its /proc there", "inputs[1].to: /dev is not"}},
		"mount without a place":        {"image: a\nmounts: [{from: /x}, /y:/z, {form: x}]\n", []string{"2:10: mounts[0]: both `from` and `to` are needed (such as {from: /project/era5, to: /data})", "2:22: mounts[1]: a mapping of keys is wanted here", "2:30: unknown key"}},
		"mount of this machine's":      {"image: a\nmounts: [{from: ./x, to: /x}, {from: ~/x, to: /y}, {from: p/../x, to: /z}, {from: '-x', to: /v}]\n", []string{`2:17: mounts[0].from: "./x" is relative`, `2:38: mounts[1].from: ~ is not known on the hosts ($HOME/x)`, `2:59: mounts[2].from: "p/../x" leads out`, `2:83: mounts[3].from: "-x" is no absolute path and no name`}},
		"mount over all":               {"image: a\nmounts: [{from: /x, to: /}]\n", []string{"2:25: mounts[0].to: all of the container cannot be replaced"}},
		"mount over the kernel's":      {"image: a\nmounts: [{from: /x, to: /proc}, {from: /x, to: /a/../sys/fs}, {from: /x, to: /dev/shm}, {from: /x, to: /.bee/run}]\n", []string{"2:25: mounts[0].to: /proc is not the job's own", "mounts[1].to: /sys/fs is not", "mounts[2].to: /dev/shm is not", "mounts[3].to: /.bee/run is not"}},
		"mount over the volume":        {"image: a\nvolume: /a/b\nmounts: [{from: /x, to: /a/b/}, {from: /x, to: /a}]\n", []string{"3:25: mounts[0].to: the volume is at /a/b, and this would hide it", "mounts[1].to: the volume is at /a/b"}},
		"mount on others":              {"image: a\ninputs: [{from: x, to: /in/x}, {from: y, to: /work/y}]\nmounts: [{from: /x, to: /in}, {from: /x, to: /work/y/z}, {from: /x, to: /m/}, {from: /x, to: /m/n}]\n", []string{"3:25: mounts[0].to: an input is there already, at /in/x", "mounts[1].to: an input is there already, at /work/y", "mounts[3].to: another mount is there already, at /m"}},
		"mount on a disk":              {"image: a\nvm: {disks: [{size: 1G, to: /d}]}\nmounts: [{from: /x, to: /d/e}]\n", []string{"3:25: mounts[0].to: a disk is there already, at /d"}},
		"mounts without number":        {"image: a\nvm: true\nmounts: [" + fortyOneMounts() + "]\n", []string{"3:9: mounts: a guest has room for 40 of them, not for 41"}},
		"output of a mount":            {"image: a\nmounts: [{from: /x, to: /work/x}]\noutputs: [{from: '/work/x/*', to: .}]\n", []string{"3:18: outputs[0].from: /work/x/* lies in a mount, whose files stay on the site"}},
		"checkpoint in a mount":        {"image: a\nmounts: [{from: /x, to: /work/x}]\ncheckpoint: {paths: [/work/x/y], file: /work/x/stop}\n", []string{"3:22: checkpoint.paths[0]: /work/x/y lies in a mount", "3:40: checkpoint.file: /work/x/stop lies in a mount"}},
		"mounts of saved machines":     {"image: a\nvm: true\ncheckpoint: {mode: vm}\nmounts: [{from: /x, to: /y}]\n", []string{"4:1: mounts: virtual machines that are saved hold all their files themselves"}},
		"volume in BEE's own":          {"image: a\nvolume: /.bee/run\n", []string{"2:9: volume: /.bee/run is not the job's own"}},
		"disk on the volume":           {"image: a\nvm: {disks: [{size: 1G, to: /a/../work}]}\n", []string{"2:29: vm.disks[0].to: the volume is there already, at /work"}},
		"disk on a disk":               {"image: a\nvm: {disks: [{size: 1G, to: /a}, {size: 1G, to: /a/}]}\n", []string{"vm.disks[1].to: another disk is there already"}},
		"disk on an input":             {"image: a\nvm: {disks: [{size: 1G, to: /in}]}\ninputs: [{from: x, to: /in}]\n", []string{"vm.disks[0].to: an input is there already"}},
		"RDMA devices of later":        {"image: a\nrdma: bee\n", []string{`2:7: rdma: "bee" is not known`}},
		"RDMA, long":                   {"image: a\nrdma: {device: soft}\n", []string{`2:16: rdma.device: "soft" is not known`}},
		"RDMA keys of later":           {"image: a\nrdma: {device: host, pci: '0000:81:00.1', memory: 4G}\n", []string{`2:22: unknown key "rdma.pci"`, `2:43: unknown key "rdma.memory"`}},
		"RDMA of a list":               {"image: a\nrdma: [host]\n", []string{`2:7: rdma: text is wanted, this is a list`}},
		"empty RDMA":                   {"image: a\nrdma: ''\n", []string{`2:7: rdma: "" is not known`}},
		"RDMA of the host in a guest":  {"image: a\nvm: true\nrdma: host\n", []string{"3:7: rdma: a virtual machine cannot use the host's devices (leave"}},
		"and in a long form":           {"image: a\nvm: {cpus: 1}\nrdma:\n  device: host\n", []string{"4:11: rdma.device: a virtual machine cannot use"}},
		"GPUs in a machine":            {"image: a\nvm: true\ngpus: all\n", []string{"3:1: gpus: a virtual machine cannot use the host's (leave"}},
		"runtime in a machine":         {"image: a\nvm: {cpus: 2}\nruntime: podman\n", []string{"3:10: runtime: in virtual machines docker starts the containers, not podman"}},
		"disk in the kernel's":         {"image: a\nvm: {disks: [{size: 1G, to: /sys}]}\n", []string{"vm.disks[0].to: /sys is not the job's own"}},
		"a NUL":                        {"image: a\nrun: \"a\\0b\"\nworkdir: \"/\\0\"\nnodes: 0\n", []string{"2:6: run: a text cannot hold a NUL", "3:10: workdir: a text cannot", "4:8: nodes: 0"}},
		"sizes that Go knows":          {"image: a\nvm: {memory: nanG, disk: 1e30}\n", []string{`vm.memory: "nanG" is no size`, `vm.disk: "1e30" is no size`}},
		"build of nothing":             {"build: {packages: [x]}\n", []string{"build: give a directory"}},
	}
}

func TestBadBeefiles(t *testing.T) {
	for name, c := range bad() {
		t.Run(name, func(t *testing.T) {
			_, err := ParseJob("job.yaml", []byte(c.text), "/d")
			if !core.IsKind(err, core.Invalid) {
				t.Fatalf("got %v, want an invalid Beefile", err)
			}
			all, ok := errors.AsType[*Errors](err)
			if !ok || len(all.Problems) != len(c.says) {
				t.Fatalf("got %d problems, want %d:\n%v", len(all.Problems), len(c.says), err)
			}
			for i, want := range c.says {
				if got := (&Errors{all.Problems[i : i+1]}).Error(); !strings.Contains(got, want) {
					t.Errorf("problem %d: got\n%v\nwant %q", i, got, want)
				}
			}
			for _, p := range all.Problems {
				if p.Line < 1 || p.Column < 1 || p.File != "job.yaml" {
					t.Errorf("no place: %+v", p)
				}
			}
		})
	}
}

func TestImagesWithoutTheWordForWhatTheyAre(t *testing.T) {
	for ref, want := range map[string]string{
		"./x.tar": "docker-archive:./x.tar", "x.tar.gz": "docker-archive:x.tar.gz", "/d/y": "oci:/d/y", "../y": "build: ../y",
		"docker-archive:./x.tar": "", "oci:./y": "", "docker.io/library/debian:12": "", "debian": "", "127.0.0.1:5000/x": "", "podman:a": "",
		"localhost/a__b/c-d.e--f:V_1.0": "", "[::1]:5000/x": "", "Host.Example.org/x": "", "debian:x.tar": "", "sha256:0a1b": "", "sha256:" + strings.Repeat("a", 64): "",
		"quay.io/a/b:1@sha256:" + strings.Repeat("0", 64): "", "docker-daemon:sha256:" + strings.Repeat("0", 64): "", "docker-daemon:0a1b2c": "", "oci-archive:/A b": "",
	} {
		_, err := ParseJob("j.yaml", []byte("image: '"+ref+"'"), "/d")
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", ref, err)
		}
	}
}

func TestNamesThatNoImageHas(t *testing.T) {
	for _, ref := range []string{
		"Ubuntu", "docker.io/Foo/Bar:1", "ubuntu:", ":tag", "ubuntu: 22", "ubuntu:" + strings.Repeat("x", 200), "ubuntu@sha256:abc", " ", "a//b", "https://docker.io/x",
		"shub://x/y", "library://a/b/c:1", "oras://ghcr.io/x", "dir:./x", "containers-storage:x", "docker-archive:", "oci:", "sha256:zz",
	} {
		if _, err := ParseJob("j.yaml", []byte("image: '"+ref+"'"), "/d"); !core.IsKind(err, core.Invalid) {
			t.Errorf("%q: %v", ref, err)
		}
	}
}

func TestCheckPlatform(t *testing.T) {
	for text, want := range map[string]string{"": "", "linux/arm64/v8": "", "blah": `--platform: platform: "blah" is no platform`, "linux/amd46": "linux/amd64"} {
		if err := CheckPlatform("--platform", text); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func fortyOneMounts() string {
	var b strings.Builder
	for i := range 41 {
		fmt.Fprintf(&b, "{from: /x, to: /m%d}, ", i)
	}
	return b.String()
}

func TestVM(t *testing.T) {
	for text, want := range map[string]VM{
		"true":                    {When: VMAlways},
		"auto":                    {When: VMAuto},
		"{cpus: 4, memory: 8G}":   {CPUs: 4, Memory: 8 << 30},
		"{memory: 1.5GiB}":        {Memory: 3 << 29},
		"{when: auto, mtu: 9000}": {When: VMAuto, MTU: 9000},
	} {
		j, err := ParseJob("j.yaml", []byte("image: x\nvm: "+text), "/d")
		if err != nil || !reflect.DeepEqual(*j.VM, want) {
			t.Errorf("%s: %+v, %v", text, j, err)
		}
	}
	for text, want := range map[string]string{
		"maybe":                                   "maybe",
		"{cpu: host, cpus: 5, sockets: 2}":        "cannot be divided",
		"{memory: 1M}":                            "does not start",
		"{memory: lots}":                          "no size",
		"{mtu: 100}":                              "vm.mtu",
		"{image: a, packages: [b]}":               "vm.packages",
		"{fabric: multicast, encryption: tls}":    "vm.encryption: with `fabric: multicast`",
		"{encryption: aes}":                       "vm.encryption",
		"{disks: [{to: /a}]}":                     "vm.disks[0]: give either",
		"{disks: [{size: 1G, from: /x, to: /a}]}": "vm.disks[0]: give either",
		"{disks: [{size: 1K, to: /a}]}":           "vm.disks[0].size",
		"{disks: [{from: x, to: /a}]}":            "vm.disks[0].from",
		"{disks: [{size: 1G, to: a}]}":            "vm.disks[0].to",
		"{disks: [" + strings.Repeat("{size: 1G, to: /a},", 17) + "]}": "room for 16",
		"{fabrik: switch}": "fabric",
	} {
		if _, err := ParseJob("j.yaml", []byte("image: x\nvm: "+text), "/d"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func FuzzParseJob(f *testing.F) {
	for _, c := range bad() {
		f.Add(c.text)
	}
	f.Add("image: a\nenv: &x {A: 1}\nsecrets: *x\n")
	f.Fuzz(func(t *testing.T, text string) {
		j, err := ParseJob("f.yaml", []byte(text), "/d")
		if (j == nil) == (err == nil) {
			t.Errorf("job %v, error %v", j, err)
		}
		if err != nil && !core.IsKind(err, core.Invalid) {
			t.Errorf("a bad file gives kind %v: %v", core.KindOf(err), err)
		}
	})
}

func FuzzParseSites(f *testing.F) {
	f.Add("sites: [{name: a, provider: ssh, hosts: ['n[1-3]']}]")
	f.Fuzz(func(_ *testing.T, text string) { ParseSites("f.yaml", []byte(text)) }) //nolint:errcheck // it must not panic
}

func FuzzConvert(f *testing.F) {
	f.Add(`{"task_conf":{"mpi_run":[{"script":1}]}}`)
	f.Fuzz(func(_ *testing.T, text string) { Convert("old.json", []byte(text)) }) //nolint:errcheck // it must not panic
}

func TestStores(t *testing.T) {
	for text, want := range map[string]Store{
		"/project/ann/bee":       {Dir: "/project/ann/bee"},
		"ann@archive:/tape/bee":  {Host: "ann@archive", Dir: "/tape/bee"},
		"archive:bee":            {Host: "archive", Dir: "bee"},
		"archive:~/bee":          {Host: "archive", Dir: "bee"},
		"./odd:name":             {Dir: "./odd:name"},
		"s3://bucket":            {Bucket: "bucket"},
		"s3://bucket/a/b/":       {Bucket: "bucket", Prefix: "a/b"},
		"s3://b-1/p?region=eu-1": {Bucket: "b-1", Prefix: "p", Region: "eu-1"},
		"s3://bucket?endpoint=https://s3.example.org:9000&profile=hpc": {Bucket: "bucket", Endpoint: "https://s3.example.org:9000", Profile: "hpc"},
	} {
		if got, err := ParseStore(text); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"/", "-oProxyCommand=x:dir", ":dir", "archive:", "archive:/", "ftp://x/y", "s3://B", "s3://", "s3://bucket?secret=x", "s3://bucket?endpoint=s3.example.org", "s3://bucket?endpoint=https://key:secret@host"} {
		if got, err := ParseStore(text); err == nil {
			t.Errorf("%q is taken for %+v", text, got)
		}
	}
	_, err := ParseJob("job.yaml", []byte("image: x\nstore: ftp://x\ncheckpoint: {grace: 1s}\n"), "/")
	if err == nil || !strings.Contains(err.Error(), "job.yaml:2:8") {
		t.Errorf("got %v", err)
	}
	j, err := ParseJob("job.yaml", []byte("image: x\nstore: kept\ncheckpoint: {grace: 1s}\n"), "/jobs")
	if err != nil || j.Store != "/jobs/kept" {
		t.Errorf("got %v, %v", j, err)
	}
}

func TestUnreadableFilesAreInvalid(t *testing.T) {
	dir := t.TempDir()
	missing := filepath.Join(dir, "none.yaml")
	for _, c := range []struct {
		name, file string
		kind       core.Kind
	}{{"directory", dir, core.Invalid}, {"below a file", filepath.Join(os.Args[0], "x"), core.Invalid}, {"missing", missing, core.NotFound}} {
		t.Run(c.name, func(t *testing.T) {
			_, err1 := LoadJob(c.file)
			_, err2 := LoadSites(c.file)
			for _, err := range []error{err1, err2} {
				if !core.IsKind(err, c.kind) || core.Remedy(err) == "" || !strings.Contains(err.Error(), c.file) {
					t.Errorf("got %v (%v), want %v and a remedy", err, core.KindOf(err), c.kind)
				}
			}
		})
	}
}

func TestVolume(t *testing.T) {
	for text, want := range map[string]Volume{
		"":                            {Path: "/work"},
		"volume: /scratch/":           {Path: "/scratch"},
		"vm: true\nvolume: dataimage": {Path: "/work", Kind: VolumeImage},
		"vm: true\nvolume: {path: /d, kind: dataimage, size: 1.5G}": {Path: "/d", Kind: VolumeImage, Size: 3 << 29},
		"vm: true\nvolume: {kind: dataimage, from: in.img}":         {Path: "/work", Kind: VolumeImage, From: "/in.img"},
		"vm: true\ncheckpoint: {mode: vm}\nvolume: dataimage":       {Path: "/work", Kind: VolumeImage},
		"vm: auto\nvolume: {kind: auto, size: 1G}":                  {Path: "/work", Kind: VolumeAuto, Size: 1 << 30},
		"volume: {kind: burst, remote: ./far, disk: 1G, rate: 8kbit, protect: true, expect: {write: 1G, every: 10m, read: 2G, reuse: 0.5}}": {
			Path: "/work", Kind: VolumeBurst, Remote: "/far", Disk: 1 << 30, Rate: 8000, Protect: true,
			Expect: Expect{Write: 1 << 30, Every: 10 * time.Minute, Read: 2 << 30, Reuse: 0.5},
		},
		"volume: {kind: burst, remote: s3://bucket/run7}": {Path: "/work", Kind: VolumeBurst, Remote: "s3://bucket/run7"},
	} {
		j, err := ParseJob("job.yaml", []byte("image: x\n"+text+"\n"), "/")
		if err != nil || j.Volume != want {
			t.Errorf("%q: %+v, %v", text, j, err)
			continue
		}
		raw, err := json.Marshal(j.Volume)
		var again Volume
		if err = errors.Join(err, json.Unmarshal(raw, &again)); err != nil || again != want {
			t.Errorf("%s: %+v, %v", raw, again, err)
		}
	}
	for text, want := range map[string]string{
		"volume: dataimage":                                        "needs virtual machines",
		"vm: false\nvolume: dataimage":                             "needs virtual machines",
		"vm: auto\nvolume: dataimage":                              "may have none",
		"vm: true\nvolume: disk":                                   "no absolute path",
		"vm: true\nvolume: {kind: disk}":                           "is not known",
		"vm: true\nvolume: {kind: dataimage, size: 1M}":            "no room",
		"vm: true\nvolume: {kind: virtio, size: 1G}":               "is for data images",
		"volume: {size: 1G}":                                       "is for data images",
		"vm: true\nvolume: {from: in.img}":                         "volume.from is for data images",
		"nodes: 2\nvm: {fabric: none}\nvolume: dataimage":          "cannot share",
		"volume: burst":                                            "needs `remote:`",
		"volume: {remote: ./far}":                                  "volume.remote is for burst buffers",
		"volume: {expect: {write: 1G}}":                            "volume.expect is for burst buffers",
		"volume: {kind: burst, remote: 'ftp://far/x'}":             "volume.remote",
		"volume: {kind: burst, remote: ./far, disk: 1M}":           "no room",
		"volume: {kind: burst, remote: ./far, size: 1G}":           "is for data images",
		"volume: {kind: burst, remote: ./far, expect: {reuse: 2}}": "cannot be",
		"nodes: 2\nvolume: {kind: burst, remote: ./far}":           "for one host",
		"vm: true\nvolume: {kind: burst, remote: ./far}":           "virtual machines cannot",
		"checkpoint: {}\nvolume: {kind: burst, remote: ./far}":     "checkpoints of a burst buffer",
	} {
		if _, err := ParseJob("job.yaml", []byte("image: x\n"+text+"\n"), "/"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestLongLinesAreShownAboutTheirMistake(t *testing.T) {
	long := "image: a\nenv: {A: " + strings.Repeat("é", 500) + ", B: [x], C: " + strings.Repeat("z", 500) + "}\n"
	_, err := ParseJob("x.yaml", []byte(long), "/d")
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != 3 || len([]rune(lines[1])) > 170 {
		t.Fatalf("got\n%v", err)
	}
	source, mark := []rune(lines[1]), strings.Index(lines[2], "^")
	if got := string(source[mark : mark+1]); got != "[" {
		t.Errorf("it points at %q:\n%v", got, err)
	}
}
