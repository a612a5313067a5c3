"""Documents as paragraphs that know where they come from, and the search for those that may answer a question.

    read_documents(path)    folder.py: a file, a folder, JSON lines      -> Document(source, content, format, title)
    document.paragraphs()   markdown.py, rst.py, html_blocks.py, pdf.py,
                            plain_text.py: blocks under their headings
                            paragraphs.py: short blocks joined           -> Paragraph(text, heading, page, offsets, ...)
    BM25(texts).rank(...)   bm25.py: texts in memory                     -> Ranked(number, score)
    Collection(documents)   collection.py: documents in memory           -> Found(paragraph, score)
    DocumentIndex(path)     index.py: documents in a file, same scores   -> Found(paragraph, score)
    ShardedIndex(folder)    sharded_index.py: in several files, the same -> Found(paragraph, score)

Every parser cuts and joins `MappedText` (mapped_text.py), which carries the offsets. Nothing here imports TensorFlow or
Keras.
"""
