// A protocol mock of Kafka: the cluster that librdkafka brings for its own tests, with one broker. It keeps the last 5 MB of each
// partition in memory: nothing about durability can be learnt from it. Usage: kafka-mock <port>
// On the UDP port of the same number it takes "<api key> <error code>" and answers the next such request with that error.
#include <arpa/inet.h>
#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static in_port_t port;

// librdkafka lets the system choose the port of a broker. It calls this function instead of the system's.
int bind(int fd, const struct sockaddr *address, socklen_t length) {
  struct sockaddr_in with_port = *(const struct sockaddr_in *)address;
  with_port.sin_port = htons(port);
  int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  return syscall(SYS_bind, fd, &with_port, length);
}

static void take_errors(rd_kafka_mock_cluster_t *cluster) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int fd = socket(AF_INET, SOCK_DGRAM, 0);
  if (bind(fd, (struct sockaddr *)&address, sizeof address) != 0) return perror("bind");
  for (;;) {
    struct sockaddr_in sender;
    socklen_t length = sizeof sender;
    char order[64] = "";
    int api, error;
    if (recvfrom(fd, order, sizeof order - 1, 0, (struct sockaddr *)&sender, &length) < 0) return perror("recvfrom");
    if (sscanf(order, "%d %d", &api, &error) != 2) continue;
    rd_kafka_mock_push_request_errors(cluster, api, 1, error);
    sendto(fd, "done", 4, 0, (struct sockaddr *)&sender, length);
  }
}

int main(int argc, char **argv) {
  if (argc != 2 || (port = atoi(argv[1])) == 0) return fprintf(stderr, "expected a port\n"), 1;
  char reason[512];
  rd_kafka_t *client = rd_kafka_new(RD_KAFKA_PRODUCER, rd_kafka_conf_new(), reason, sizeof reason);
  if (client == NULL) return fprintf(stderr, "%s\n", reason), 1;
  rd_kafka_mock_cluster_t *cluster = rd_kafka_mock_cluster_new(client, 1);
  if (cluster == NULL) return 1;
  // In later versions of these two requests, it refuses what @platformatic/kafka sends and a broker takes.
  rd_kafka_mock_set_apiversion(cluster, 2 /* ListOffsets */, 0, 2);
  rd_kafka_mock_set_apiversion(cluster, 22 /* InitProducerId */, 0, 2);
  take_errors(cluster);
  return 1;
}
