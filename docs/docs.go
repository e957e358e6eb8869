// Package docs names the pages of the documentation that `bee help TOPIC` and the manual pages show.
package docs

import "slices"

// A Topic is a page by the word that `bee help` and man know it by.
type Topic struct {
	Name string
	File string // below docs, such as reference/beefile.md
	// Man is the name of the manual page, and Section its section: 5 for formats of files, 7 for
	// all others (man-pages(7)).
	Man     string
	Section string
	Short   string // what the page is about, as a list of topics has it
}

// Topics returns all topics, in the order of lists. No topic has the name of a command, whose own
// help `bee help` shows.
func Topics() []Topic {
	topics := []Topic{
		{Name: "beefile", File: "reference/beefile.md", Man: "beefile", Section: "5", Short: "Keys of the file that describes a job"},
		{Name: "sites", File: "reference/sites.md", Section: "5", Short: "Keys of the file that lists your machines"},
		{Name: "study", File: "reference/study-file.md", Section: "5", Short: "Keys of the file that describes a comparison"},
		{Name: "one-screen", File: "reference/one-screen.md", Short: "A Beefile and a sites file on one screen"},
		{Name: "environment", File: "reference/environment.md", Short: "Variables that bee reads, and those that jobs have"},
		{Name: "exit-codes", File: "reference/exit-codes.md", Short: "Exit codes of bee"},
		{Name: "json", File: "reference/json.md", Short: "Fields of what --json prints"},
		{Name: "openmetrics", File: "reference/metrics.md", Short: "Numbers that bee metrics prints"},
		{Name: "runtimes", File: "reference/runtimes.md", Short: "Container runtimes and their rules"},
		{Name: "volumes", File: "reference/volumes.md", Short: "Kinds of volumes, and what they can do"},
		{Name: "images", File: "reference/images.md", Short: "Names of images, the cache and platforms"},
		{Name: "from-slurm", File: "how-to/from-slurm.md", Short: "Commands and keys for users of sbatch"},
		{Name: "from-docker", File: "how-to/from-docker.md", Short: "Commands and keys for users of docker"},
		{Name: "slurm", File: "reference/slurm.md", Short: "Sites of Slurm"},
		{Name: "troubleshooting", File: "how-to/troubleshooting.md", Short: "Symptoms and errors, with what to do"},
		{Name: "errors", File: "reference/errors.md", Short: "Every error of bee, by its first words"},
		{Name: "faq", File: "explanation/faq.md", Short: "Questions and answers"},
		{Name: "glossary", File: "reference/glossary.md", Short: "Words of bee"},
		{Name: "administrators", File: "reference/administrators.md", Short: "What bee does on a cluster, for its administrators"},
		{Name: "security", File: "explanation/security.md", Short: "Who may do what, and how that is checked"},
		{Name: "network", File: "explanation/network.md", Short: "Connections between hosts and guests"},
		{Name: "arrays", File: "how-to/arrays.md", Short: "Many runs of one job"},
		{Name: "pipelines", File: "how-to/pipelines.md", Short: "One job after another"},
		{Name: "checkpoints", File: "how-to/checkpoints.md", Short: "Have a job write checkpoints"},
		{Name: "mounts", File: "how-to/mounts.md", Short: "Data that a cluster has"},
		{Name: "mpi", File: "how-to/mpi.md", Short: "The MPI of your image"},
		{Name: "gpus", File: "how-to/gpus-and-infiniband.md", Short: "GPUs and InfiniBand"},
		{Name: "virtual-machines", File: "how-to/vm.md", Short: "Run in virtual machines"},
		{Name: "aws", File: "how-to/aws.md", Short: "Machines rented from AWS"},
		{Name: "openstack", File: "how-to/openstack.md", Short: "Machines rented from OpenStack"},
		{Name: "ci", File: "how-to/ci.md", Short: "From a CI pipeline to a cluster"},
		{Name: "tickets", File: "how-to/tickets.md", Short: "Continue a run on another machine"},
		{Name: "notifications", File: "how-to/notifications.md", Short: "Be informed when a run ends"},
		{Name: "python", File: "how-to/python.md", Short: "Runs from Python and notebooks"},
	}
	for i := range topics {
		if t := &topics[i]; t.Man == "" {
			t.Man = "bee-" + t.Name
		}
		if t := &topics[i]; t.Section == "" {
			t.Section = "7"
		}
	}
	return topics
}

// Find returns the topic of a name.
func Find(name string) (Topic, bool) {
	topics := Topics()
	i := slices.IndexFunc(topics, func(t Topic) bool { return t.Name == name })
	if i < 0 {
		return Topic{}, false
	}
	return topics[i], true
}
