"""fabir-serve: readers behind TensorFlow Serving's protocols, an API for answers, and a page to ask on."""
