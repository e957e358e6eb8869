package core

// NoticeVariable, in the environment of a node and of the first process of its
// container, makes TERM the site's notice that it takes the host back. Slurm
// sends it to every process of a job: the node then asks the job to save
// itself, and nothing else of ours may end before that is done. A node is ended
// by INT instead.
const NoticeVariable = "BEE_TERM_IS_NOTICE"
