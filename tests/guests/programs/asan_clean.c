// Runs under AddressSanitizer for a while, correctly; with an argument it then reads what it has freed.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct node { struct node* next; long value; };

static void* build(void* seed) {
    long sum = 0;
    for (int round = 0; round < 60; ++round) {
        struct node* head = NULL;
        for (long i = 0; i < 5000; ++i) {
            struct node* made = malloc(sizeof *made);
            *made = (struct node){head, i ^ (long)seed};
            head = made;
        }
        while (head) {
            struct node* next = head->next;
            sum += head->value;
            free(head);
            head = next;
        }
    }
    return (void*)sum;
}

int main(int count, char** words) {
    pthread_t threads[3];
    long sum = 0;
    for (long i = 0; i < 3; ++i) pthread_create(&threads[i], NULL, build, (void*)i);
    for (int i = 0; i < 3; ++i) {
        void* result;
        pthread_join(threads[i], &result);
        sum += (long)result;
    }
    volatile double x = 0;
    for (long i = 0; i < 200000000; ++i) x += i;
    printf("sum %ld, x %.0f\n", sum, x);
    fflush(stdout);
    if (count > 1) {
        char* text = strdup(words[1]);
        free(text);
        return text[0];
    }
    return 0;
}
