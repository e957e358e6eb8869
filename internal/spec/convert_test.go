package spec

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/testkit"
)

func TestConvert(t *testing.T) {
	raw, err := os.ReadFile("testdata/old.json")
	if err != nil {
		t.Fatal(err)
	}
	c, err := Convert("old.json", raw)
	if err != nil {
		t.Fatal(err)
	}
	j, err := ParseJob("job.yaml", []byte(c.Beefile), "/d")
	if err != nil {
		t.Fatalf("%v\n%s", err, c.Beefile)
	}
	if j.Name != "vpic" || j.Image != "cjy7117/vpic" || j.Nodes != 2 || j.RanksPerNode != 2 || j.Volume.Path != "/mnt/docker_share" ||
		j.Run.Shell != "./prepare.sh\nmpirun -n 4 ./run.sh\n" || !slices.Equal(j.Inputs, []Input{{From: "/home/ann/input", To: "/mnt/docker_share"}, {From: "/d/prepare.sh", To: "/mnt/docker_share/prepare.sh"}, {From: "/d/run.sh", To: "/mnt/docker_share/run.sh"}}) {
		t.Errorf("got %+v", j)
	}
	if v := j.VM; v == nil || v.CPUs != 16 || v.Sockets != 2 || v.Memory != 16<<30 {
		t.Errorf("got the machine %+v", j.VM)
	}
	sites, err := ParseSites("sites.yaml", []byte(c.Sites))
	if err != nil || len(sites) != 1 || strings.Join(sites[0].Hosts.Patterns, " ") != "cn30 cn31" {
		t.Errorf("got %+v, %v", sites, err)
	}
	var made strings.Builder
	show := func(name string, c Converted) {
		made.WriteString("> " + name + "\n" + c.Beefile + "notes:\n" + strings.Join(c.Notes, "\n") + "\n\n")
	}
	show("whole", c)
	for _, target := range []string{"bee_aws", "bee_os"} {
		c, err := Convert("old.json", []byte(`{"task_conf":{"exec_target":"`+target+`","mpi_run":[{"script":"r.sh"}]},"docker_conf":{"docker_img_tag":"x"},"exec_env_conf":{"`+target+`":{"num_of_nodes":"3","instance_type":"c5"}}}`))
		if err != nil {
			t.Fatal(err)
		}
		show("for "+target, c)
	}
	c, err = Convert("old.json", []byte(`{"task_conf":{"exec_target":"bee_vm","mpi_run":[{"script":"a","num_of_nodes":2,"proc_per_node":2},{"script":"b","num_of_nodes":4,"proc_per_node":4},{"script":"c","num_of_nodes":1,"proc_per_node":2}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	show("commands of different size", c)
	c, err = Convert("old.json", []byte(`{"task_conf":{"exec_target":"bee_vm"},"exec_env_conf":{"bee_aws":{"num_of_nodes":16},"bee_vm":{"node_list":["a","b"]}}}`))
	if err != nil {
		t.Fatal(err)
	}
	show("the nodes of another target", c)
	c, err = Convert("old.json", []byte(`{"task_conf":{"exec_target":"bee_vm"},"exec_env_conf":{"bee_os":{"num_of_nodes":"2"},"bee_vm":{"ram_size":"4G","shape":"round"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	show("what other targets have", c)
	testkit.Golden(t, "converted", made.String())
	if _, err := Convert("old.json", []byte("{}")); !core.IsKind(err, core.Invalid) {
		t.Errorf("an empty object: %v", err)
	}
}

// converted gives the job that the sections of an old file are turned into, and the notes.
func converted(t *testing.T, task, docker, exec string) (*Job, string) {
	t.Helper()
	c, err := Convert("old.json", []byte(`{"task_conf":{`+task+`},"docker_conf":{"docker_img_tag":"x",`+docker+`},"exec_env_conf":{`+exec+`}}`))
	if err != nil {
		t.Fatal(err)
	}
	j, err := ParseJob("job.yaml", []byte(c.Beefile), "/d")
	if err != nil || !strings.Contains(c.Beefile, "run: |\n") {
		t.Fatalf("%v\n%s", err, c.Beefile)
	}
	return j, strings.Join(c.Notes, "\n")
}

func TestConvertBringsScripts(t *testing.T) {
	j, _ := converted(t, `"exec_target":"bee_vm","general_run":[{"script":"it's one.sh"}],"mpi_run":[{"script":"/opt/run.sh","num_of_nodes":1,"proc_per_node":2},{"script":"sub/run.sh"}]`,
		`"docker_shared_dir":"/share"`, `"bee_vm":{"node_list":["a"],"host_input_dir":"/in","ram_size":"2048"}`)
	want := []Input{{From: "/in", To: "/share"}, {From: "/d/it's one.sh", To: "/share/it's one.sh"}, {From: "/opt/run.sh", To: "/share/run.sh"}, {From: "/d/sub/run.sh", To: "/share/2-run.sh"}}
	if !slices.Equal(j.Inputs, want) {
		t.Errorf("inputs %v, want %v", j.Inputs, want)
	}
	if want := "'./it'\\''s one.sh'\nmpirun -n 2 ./run.sh\nmpirun ./2-run.sh\n"; j.Run.Shell != want || j.Workdir != "/share" {
		t.Errorf("in %s runs\n%s\nwant\n%s", j.Workdir, j.Run.Shell, want)
	}
	if j.VM.Memory != 2<<30 {
		t.Errorf("memory %d", j.VM.Memory)
	}
}

// As the original launcher has it, batch_mode true gives each node a script of its own.
func TestConvertBatchMode(t *testing.T) {
	j, notes := converted(t, `"exec_target":"bee_aws","batch_mode":true,"general_run":[{"script":"a.sh"},{"script":"b c.sh"}],"mpi_run":[{"script":"m.sh"}]`, `"docker_shared_dir":"/share"`, `"bee_aws":{"num_of_nodes":"2"}`)
	const want = `IFS=,
set -- $BEE_NODELIST
/.bee/rsh "${1}" './a.sh' & p1=$!
/.bee/rsh "${2}" ''\''./b c.sh'\''' & p2=$!
code=0
wait $p1 || code=$?
wait $p2 || code=$?
exit $code
`
	if j.Nodes != 2 || j.Run.Shell != want {
		t.Errorf("on %d nodes\n%s\nwant\n%s", j.Nodes, j.Run.Shell, want)
	}
	testkit.Golden(t, "batch-mode", notes+"\n")
}

func TestConvertNotesWhatItLeavesOut(t *testing.T) {
	var noted strings.Builder
	for _, c := range []struct{ name, old string }{
		{"an unknown part", `{"task_conf":{},"container_conf":{"container_path":"/x.tar.gz"}}`},
		{"no list", `{"task_conf":{"general_run":{"script":"a.sh"}}}`},
		{"no script", `{"task_conf":{"mpi_run":[{"num_of_nodes":2},"a.sh"]}}`},
		{"an unknown key of a script", `{"task_conf":{"mpi_run":[{"script":"a.sh","map_by":"node"}]}}`},
		{"no number", `{"task_conf":{"mpi_run":[{"script":"a.sh","num_of_nodes":"two"}]}}`},
		{"no number of cores", `{"task_conf":{"exec_target":"bee_vm"},"exec_env_conf":{"bee_vm":{"cpu_core_per_socket":-8}}}`},
		{"too few machines", `{"task_conf":{"exec_target":"bee_vm","mpi_run":[{"script":"a.sh","num_of_nodes":2}]},"exec_env_conf":{"bee_vm":{"node_list":["a"]}}}`},
		{"no script at all", `{"task_conf":{}}`},
		{"a name that ours cannot be", `{"task_conf":{"task_name":"a/b"},"docker_conf":{"docker_img_tag":"x"}}`},
		{"a host given twice", `{"task_conf":{"exec_target":"bee_vm"},"exec_env_conf":{"bee_vm":{"node_list":["a","a"]}}}`},
	} {
		made, err := Convert("old.json", []byte(c.old))
		if err != nil || len(made.Notes) == 0 {
			t.Errorf("%s: %v, notes %q", c.name, err, made.Notes)
		}
		noted.WriteString(c.name + ":\n" + strings.Join(made.Notes, "\n") + "\n\n")
	}
	testkit.Golden(t, "convert-notes", noted.String())
}

func TestConvertTellsWhereAFileIsWrong(t *testing.T) {
	var refused testkit.ErrorList
	for _, c := range []struct{ name, old string }{
		{"no JSON", "{\n  \"task_conf\": {\n    \"task_name\": \"x\",\n  }\n}\n"},
		{"cut off", `{"task_conf": `},
		{"another type", "{\n \"task_conf\": 3}"},
		{"another file", `{"name": "x"}`},
	} {
		_, err := Convert("old.json", []byte(c.old))
		if !core.IsKind(err, core.Invalid) {
			t.Errorf("%s: %v", c.name, err)
		}
		refused.Add(c.name+":\n"+c.old, err)
	}
	refused.Compare(t, "convert")
}
