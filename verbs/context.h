/* Opened devices, and the functions that a context offers. */
#ifndef BEE_CONTEXT_H
#define BEE_CONTEXT_H

#include "object.h"

#define HELLO_DESCRIPTORS 5
#define PROCESS_DESCRIPTORS 3

/* hello begins a connection; the descriptors are async_fd, woken, wake, page and table. */
int hello(int socket, struct bee_hello_reply *reply, struct passed p[HELLO_DESCRIPTORS]);

/* track makes an object findable by the handle that events name; forget ends that. */
void track(struct context *c, struct object *o, uint32_t handle, void *element);
void forget(struct context *c, struct object *o);

/*
 * process_of returns the process with this number, mapped. It takes the descriptors, and
 * leaves -1: wake, page and table.
 */
struct process *process_of(struct context *c, uint32_t number, struct passed from[PROCESS_DESCRIPTORS]);

/* wake wakes a process that sleeps, after something was published for it. */
void wake(struct context *c, struct process *p);

/* send_wake sends on a socket that wakes a process. One that is full has woken it already. */
void send_wake(int socket);

/* Functions of a context, by the file that has them. */
int query_port_ex(struct ibv_context *c, uint8_t port, struct ibv_port_attr *a, size_t size);
int query_device_ex(struct ibv_context *c, const struct ibv_query_device_ex_input *in,
		    struct ibv_device_attr_ex *a, size_t size);
int query_rt_values(struct ibv_context *c, struct ibv_values_ex *values);
struct ibv_pd *alloc_parent_domain(struct ibv_context *c, struct ibv_parent_domain_init_attr *a);
struct ibv_td *alloc_td(struct ibv_context *c, struct ibv_td_init_attr *a);
int dealloc_td(struct ibv_td *td);
struct ibv_cq_ex *create_cq_ex(struct ibv_context *c, struct ibv_cq_init_attr_ex *a);
int poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc);
int req_notify_cq(struct ibv_cq *cq, int solicited);
int modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *a);
struct ibv_qp *create_qp_ex(struct ibv_context *c, struct ibv_qp_init_attr_ex *a);
struct ibv_srq *create_srq_ex(struct ibv_context *c, struct ibv_srq_init_attr_ex *a);
int get_srq_num(struct ibv_srq *srq, uint32_t *number);
int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

#endif
