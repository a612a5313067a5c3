/* Asks an exported reader one question, with TensorFlow's C library alone.

     cc answer.c -I INCLUDE -L LIB -Wl,-rpath,LIB -l:libtensorflow_cc.so.2 -l:libtensorflow_framework.so.2 -o answer
     ./answer exported/fabir/1 "Who built the mill?" "The mill was built by Anna Keld."

   INCLUDE and LIB are the folders of a TensorFlow installation; for Python's, tf.sysconfig.get_include() and
   tf.sysconfig.get_lib() return them. Prints three lines: the answer, which is empty if the reader abstains, its
   probability, and the probability that there is no answer. The number of an output is its index in the signature, in
   alphabetical order: `saved_model_cli show --dir exported/fabir/1 --all` lists them. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensorflow/c/c_api.h"
#include "tensorflow/c/tf_tstring.h"

enum { ANSWER = 0, NO_ANSWER_PROBABILITY = 11, PROBABILITY = 12, OUTPUTS = 3 };

static void check(const TF_Status* status) {
  if (TF_GetCode(status) == TF_OK) return;
  fprintf(stderr, "error: %s\n", TF_Message(status));
  exit(1);
}

static TF_Tensor* batch_of_one(const char* text) {
  const int64_t shape[] = {1};
  TF_Tensor* tensor = TF_AllocateTensor(TF_STRING, shape, 1, sizeof(TF_TString));
  TF_TString* string = TF_TensorData(tensor);
  TF_StringInit(string);
  TF_StringCopy(string, text, strlen(text));
  return tensor;
}

int main(int argc, char** argv) {
  if (argc != 4) {
    fprintf(stderr, "error: expected three arguments, the folder of a version, a question and a passage\n");
    return 2;
  }
  TF_Status* status = TF_NewStatus();
  TF_SessionOptions* options = TF_NewSessionOptions();
  TF_Graph* graph = TF_NewGraph();
  const char* tags[] = {"serve"};
  TF_Session* session = TF_LoadSessionFromSavedModel(options, NULL, argv[1], tags, 1, graph, NULL, status);
  check(status);

  const TF_Output inputs[] = {
      {TF_GraphOperationByName(graph, "serving_default_question"), 0},
      {TF_GraphOperationByName(graph, "serving_default_passage"), 0},
  };
  TF_Operation* served = TF_GraphOperationByName(graph, "StatefulPartitionedCall");
  if (inputs[0].oper == NULL || inputs[1].oper == NULL || served == NULL) {
    fprintf(stderr, "error: %s has no signature serving_default that takes a question and a passage\n", argv[1]);
    return 1;
  }
  const TF_Output outputs[OUTPUTS] = {{served, ANSWER}, {served, PROBABILITY}, {served, NO_ANSWER_PROBABILITY}};
  TF_Tensor* given[] = {batch_of_one(argv[2]), batch_of_one(argv[3])};
  TF_Tensor* found[OUTPUTS] = {NULL, NULL, NULL};
  TF_SessionRun(session, NULL, inputs, given, 2, outputs, found, OUTPUTS, NULL, 0, NULL, status);
  check(status);

  const TF_TString* answer = TF_TensorData(found[0]);
  fwrite(TF_StringGetDataPointer(answer), 1, TF_StringGetSize(answer), stdout);
  printf("\n%f\n%f\n", *(const float*)TF_TensorData(found[1]), *(const float*)TF_TensorData(found[2]));

  for (int i = 0; i < 2; i++) {
    TF_StringDealloc(TF_TensorData(given[i]));
    TF_DeleteTensor(given[i]);
  }
  TF_StringDealloc(TF_TensorData(found[0]));
  for (int i = 0; i < OUTPUTS; i++) TF_DeleteTensor(found[i]);
  TF_CloseSession(session, status);
  TF_DeleteSession(session, status);
  TF_DeleteGraph(graph);
  TF_DeleteSessionOptions(options);
  TF_DeleteStatus(status);
  return 0;
}
